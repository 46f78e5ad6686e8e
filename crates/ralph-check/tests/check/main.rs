//! Tests of the checks on the text of a change.

#[cfg(test)]
mod added_lines;
#[cfg(test)]
mod changed_tests;
#[cfg(test)]
mod test_integrity;
