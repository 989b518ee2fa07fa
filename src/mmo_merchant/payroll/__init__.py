"""Pay a file of pay-outs, each line once."""
