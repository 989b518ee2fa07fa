"""Writes what merchants receive: responses, callbacks, QR codes and problem documents."""
