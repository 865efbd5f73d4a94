"""Who a process is, what its clock says, and how it logs."""
