"""Those who act on what was decided: submit, ask, call back, wake."""
