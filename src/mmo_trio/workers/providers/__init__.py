"""Submit payments to providers and poll them."""
