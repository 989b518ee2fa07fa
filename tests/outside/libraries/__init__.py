"""What common libraries make of a gateway's amounts, numbers, references and QR codes."""
