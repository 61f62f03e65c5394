# Says in plain words what was found and what is therefore on or off.
