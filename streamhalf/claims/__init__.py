"""Statements that hold for any data: certificates, and the check of what a document claims."""
