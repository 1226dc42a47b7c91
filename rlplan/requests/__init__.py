"""What commands are asked: a frozen request for each, whose fields are its flags."""
