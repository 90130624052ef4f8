//! What was seen from outside, and the judges of it: histories of checks, and the checkers that the chaos suite holds
//! against them. Pure: a history comes in, a verdict goes out.
