// Replaces a package that another one loads and nothing here uses.

export {};
