# Install rules and the config package.
