"""What is said of a campaign that was interrupted is true of its directory."""

from autotune.commands.tune import interrupted


def test_nothing_is_lost_where_the_journal_is(tmp_path):
    (tmp_path / "journal.jsonl").write_text("{}\n")
    assert "nothing is lost" in str(interrupted(tmp_path))


def test_a_directory_that_was_removed_is_said_to_be_lost(tmp_path):
    message = str(interrupted(tmp_path / "gone"))
    assert "nothing is lost" not in message
    assert "was removed while the campaign ran, and its launches are lost" in message
