"""What people see: the command line."""
