//! What the text of a change shows, and what it does not.

#[cfg(test)]
mod integrity;
#[cfg(test)]
mod lines;
