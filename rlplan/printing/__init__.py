"""What a person or a program reads on stdout: tables, JSON, CSV; one file a document."""
