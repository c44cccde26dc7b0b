// Version in the form A.B.C, which clients parse. A test keeps it equal to package.json's.

export const VERSION = "2.6.0";

/** Name of the program in messages. */
export const PROGRAM = "runnerbean";
