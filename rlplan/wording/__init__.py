"""What every face needs to write for people: numbers, signs, files, and the forms that data is printed in."""
