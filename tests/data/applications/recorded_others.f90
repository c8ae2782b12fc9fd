! Known calls that are no collectives, for the recorder: by `use mpi_f08` where F08 is defined, by mpif.h where MPIF is,
! else by `use mpi`. Two ranks; the file of their MPI-IO is the first argument.
program recorded_others
#ifdef F08
  use mpi_f08
#elif !defined MPIF
  use mpi
#endif
  implicit none
#ifdef MPIF
  include 'mpif.h'
#endif
#ifdef F08
  type(mpi_comm) :: world
  type(mpi_request) :: requests(2)
  type(mpi_win) :: window
  type(mpi_file) :: file
  type(mpi_status) :: state
#else
  integer :: world, requests(2), window, file, state(mpi_status_size)
#endif
  integer :: rank, other, i, at, ierr
  logical :: done
  double precision :: sent(4096), got(4096), memory(4096)
  integer(kind=mpi_address_kind) :: bytes = 8 * 4096, place = 0
  integer(kind=mpi_offset_kind) :: offset
  character(len=512) :: name

  call mpi_init(ierr)
  world = mpi_comm_world
  call mpi_comm_rank(world, rank, ierr)
  other = 1 - rank
  sent = rank
  call get_command_argument(1, name)
  do i = 1, 7
    if (rank == 0) call mpi_send(sent, 4, mpi_double_precision, other, 0, world, ierr)
    if (rank == 1) call mpi_recv(got, 4, mpi_double_precision, other, 0, world, state, ierr)
  end do
  do i = 1, 5
    call mpi_sendrecv(sent, 4, mpi_double_precision, other, 1, got, 4, mpi_double_precision, other, 1, world, &
                      mpi_status_ignore, ierr)
    call mpi_sendrecv_replace(sent, 4, mpi_double_precision, other, 2, other, 2, world, state, ierr)
  end do
  do i = 1, 6
    call mpi_irecv(got, 4096, mpi_double_precision, other, 3, world, requests(1), ierr)
    call mpi_isend(sent, 4096, mpi_double_precision, other, 3, world, requests(2), ierr)
    if (mod(i, 2) == 0) then
      call mpi_waitall(2, requests, mpi_statuses_ignore, ierr)
    else
      call mpi_waitany(2, requests, at, state, ierr)
      call mpi_waitany(2, requests, at, mpi_status_ignore, ierr)
    end if
  end do
  do i = 1, 3
    call mpi_issend(sent, 4, mpi_double_precision, other, 4, world, requests(1), ierr)
    call mpi_probe(other, 4, world, state, ierr)
    call mpi_recv(got, 4, mpi_double_precision, other, 4, world, mpi_status_ignore, ierr)
    call mpi_wait(requests(1), state, ierr)
  end do
  call mpi_recv_init(got, 4, mpi_double_precision, other, 5, world, requests(1), ierr)
  call mpi_send_init(sent, 4, mpi_double_precision, other, 5, world, requests(2), ierr)
  do i = 1, 4
    if (mod(i, 2) == 0) then
      call mpi_startall(2, requests, ierr)
    else
      call mpi_start(requests(1), ierr)
      call mpi_start(requests(2), ierr)
    end if
    call mpi_waitall(2, requests, mpi_statuses_ignore, ierr)
  end do
  call mpi_request_free(requests(1), ierr)
  call mpi_request_free(requests(2), ierr)
  call mpi_win_create(memory, bytes, 8, mpi_info_null, world, window, ierr)
  do i = 1, 3
    call mpi_win_fence(0, window, ierr)
    call mpi_put(sent, 4, mpi_double_precision, other, place, 4, mpi_double_precision, window, ierr)
    call mpi_win_fence(0, window, ierr)
    call mpi_get(got, 4, mpi_double_precision, other, place, 4, mpi_double_precision, window, ierr)
    call mpi_win_fence(0, window, ierr)
    call mpi_accumulate(sent, 4, mpi_double_precision, other, place, 4, mpi_double_precision, mpi_sum, window, ierr)
    call mpi_win_fence(0, window, ierr)
  end do
  do i = 1, 2
    call mpi_win_lock(mpi_lock_exclusive, other, 0, window, ierr)
    call mpi_put(sent, 4, mpi_double_precision, other, place, 4, mpi_double_precision, window, ierr)
    call mpi_win_flush(other, window, ierr)
    call mpi_win_unlock(other, window, ierr)
  end do
  call mpi_win_free(window, ierr)
  call mpi_file_open(world, trim(name), mpi_mode_create + mpi_mode_rdwr, mpi_info_null, file, ierr)
  offset = 0
  call mpi_file_set_view(file, offset, mpi_double_precision, mpi_double_precision, 'native', mpi_info_null, ierr)
  do i = 1, 5
    offset = 4096 * rank
    call mpi_file_write_at_all(file, offset, sent, 4096, mpi_double_precision, state, ierr)
    call mpi_file_read_at(file, offset, got, 512, mpi_double_precision, mpi_status_ignore, ierr)
    call mpi_file_iwrite_at(file, offset, sent, 512, mpi_double_precision, requests(1), ierr)
    done = .false.
    do while (.not. done)
      call mpi_test(requests(1), done, state, ierr)
    end do
  end do
  call mpi_file_close(file, ierr)
  call mpi_finalize(ierr)
end program
