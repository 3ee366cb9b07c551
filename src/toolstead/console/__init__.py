"""What people see: the command line. Below: everything; above: nobody."""
