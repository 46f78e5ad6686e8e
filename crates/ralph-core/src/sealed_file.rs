//! A file of the project that decides the result of a gate, and why it does.

use crate::record::PolicySeal;
use alloc::format;
use alloc::string::String;
use serde::{Deserialize, Serialize};

/// A file or a script that a gate executes as its judge, or that controls how it does. A change of it holds the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedFile {
    /// A path in the project, a pattern for the names of files (`chk/*.sh`), or `package.json: scripts.test`
    pub name: String,
    /// Of the content; for a pattern, of the names that match it.
    pub hash: String,
    /// The first gate that uses it.
    pub gate: String,
    pub why: SealReason,
    /// The program that reads it, the name of the sealed file that leads to it, or the pattern that matches it. Empty if
    /// the command itself names it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
}

/// A program and a hash of its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedProgram {
    pub path: String,
    pub content: String,
}

/// An environment variable and a hash of its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedVariable {
    pub name: String,
    pub hash: String,
}

/// A tracked symlink that leads out of the work tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutsideLink {
    /// Relative to the work tree.
    pub path: String,
    /// Identifies the file or directory that it leads to. Empty if there is none.
    pub mark: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SealReason {
    /// The command names it.
    Named,
    /// A program such as `make` reads its commands from it.
    Recipe,
    /// Another sealed file includes or calls it.
    Included,
    /// A script of `package.json`.
    Script,
    /// It controls which program a runner starts, and how.
    Settings,
    /// It is in a directory of the project in which gates look for programs.
    SearchPath,
}

impl SealedFile {
    /// Whether it stands for the names of the files that match a pattern of the command.
    pub fn is_pattern(&self) -> bool {
        self.why == SealReason::Named && self.by == self.name
    }

    /// Why it is sealed, as the second half of the sentence "It is sealed, because …".
    pub fn reason(&self) -> String {
        let Self { gate, by, .. } = self;
        match self.why {
            SealReason::Named if by.is_empty() => format!("gate {gate} names it"),
            SealReason::Named if self.is_pattern() => {
                format!("gate {gate} runs the files that match it")
            }
            SealReason::Named => format!("gate {gate} runs `{by}`"),
            SealReason::Recipe => format!("`{by}` of gate {gate} reads its commands from it"),
            SealReason::Included if by.is_empty() => format!("gate {gate} includes it"),
            SealReason::Included => format!("`{by}` includes it"),
            SealReason::Script if by.is_empty() => format!("gate {gate} runs it"),
            SealReason::Script => format!("it runs with `{by}`"),
            SealReason::Settings if by.is_empty() => {
                format!("it controls which programs gate {gate} runs")
            }
            SealReason::Settings => format!("it controls `{by}` of gate {gate}"),
            SealReason::SearchPath => String::from("gates look for programs in its directory"),
        }
    }
}

impl PolicySeal {
    /// Whether a person typed the gate of this name for this run only.
    pub fn is_check(&self, gate: &str) -> bool {
        self.checks.iter().any(|check| check == gate)
    }
}
