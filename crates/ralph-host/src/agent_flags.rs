//! The flags of a host's program that a person may or may not pass to a driven agent.

use alloc::string::String;

#[derive(Debug)]
pub struct AgentFlags {
    /// Flags that ralph sets itself or that leave no session to drive, each with a hint.
    pub reserved: &'static [(&'static str, &'static str)],
    /// Flags that are useful for a driven agent. `ralph run` takes them only after `--`.
    pub useful: &'static [&'static str],
    /// Flags that allow something. The client interprets the rules in them.
    pub granting: &'static [&'static str],
    /// Flags that disable the permission prompts.
    pub skipping: &'static [&'static str],
    /// The flag for the permission mode.
    pub permission_mode: &'static str,
    /// The permission mode without prompts.
    pub bypass_mode: &'static str,
    /// The flags that let the agent edit files.
    pub allow_edits: &'static str,
    /// The flag that allows tools; their names follow it.
    pub allow_tools: &'static str,
    /// Examples of model names, for help texts.
    pub model_examples: &'static [&'static str],
}

impl AgentFlags {
    /// Whether the flags disable the permission prompts, in any of the ways that the client has.
    pub fn skip_permissions(&self, flags: &[String]) -> bool {
        let is_bypass = |mode: &str| mode.trim().eq_ignore_ascii_case(self.bypass_mode);
        let is_skipping = |flag: &String| {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            self.skipping.contains(&name) || name == self.permission_mode && is_bypass(value)
        };
        let after_mode = flags.windows(2).any(|pair| match pair {
            [name, value] => name == self.permission_mode && is_bypass(value),
            _ => false,
        });
        after_mode || flags.iter().any(is_skipping)
    }
}
