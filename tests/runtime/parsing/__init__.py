"""No text from outside costs more time than its length."""
