//! Tests of the checks on the text of a change.

#[cfg(test)]
mod added_lines;
#[cfg(test)]
mod test_integrity;
