//! The check of a list's item: a program and its arguments, or a line for a shell.

use crate::gate::{GateInvocation, shell_quote};
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The check of an item, in the form that feature lists and sealed lists have: `["make", "test"]` or
/// `{"shell": "make && make test"}`. Only its result counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ItemCheck {
    /// A program and its arguments.
    Argv(Vec<String>),
    /// A line for `/bin/sh -c`. Nothing is ever substituted in it.
    Shell { shell: String },
}

impl ItemCheck {
    pub fn invocation(&self) -> GateInvocation {
        match self {
            Self::Argv(words) => GateInvocation::Argv(words.clone()),
            Self::Shell { shell } => GateInvocation::Shell(shell.clone()),
        }
    }

    /// The command as a person would type it. For display only, and not cleaned.
    pub fn command_line(&self) -> String {
        match self {
            Self::Argv(words) => {
                words.iter().map(|word| shell_quote(word)).collect::<Vec<_>>().join(" ")
            }
            Self::Shell { shell } => shell.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_keep_their_json() {
        for (json, line) in [
            (r#"["cargo","test","a b"]"#, "cargo test 'a b'"),
            (r#"{"shell":"a && b | c"}"#, "a && b | c"),
        ] {
            let check: ItemCheck = serde_json::from_str(json).unwrap();
            assert_eq!(check.command_line(), line);
            assert_eq!(serde_json::to_string(&check).unwrap(), json);
        }
    }
}
