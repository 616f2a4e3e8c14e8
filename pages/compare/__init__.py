"""The page Compare: two passes side by side, or two heads of one."""
