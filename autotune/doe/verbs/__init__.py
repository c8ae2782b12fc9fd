"""Commands for any user's designs and tables: ``screen`` and ``model``."""
