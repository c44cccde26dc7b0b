// The version, in the form A.B.C that clients parse; a test keeps it equal to package.json's.

export const VERSION = "2.5.0";

/** What it is called in messages. */
export const PROGRAM = "runnerbean";
