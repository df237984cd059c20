"""Where messages wait: the contract, and one module or folder per kind of store."""
