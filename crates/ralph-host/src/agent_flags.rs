//! The flags of a host's program that a person may or may not pass to a driven agent.

use alloc::string::String;

#[derive(Debug)]
pub struct AgentFlags {
    /// Flags that ralph sets itself or that leave no session to drive, each with a hint.
    pub reserved: &'static [(&'static str, &'static str)],
    /// Flags that are useful for a driven agent. `ralph run` takes them only after `--`.
    pub useful: &'static [&'static str],
    /// Flags that decide whether the agent may edit files.
    pub deciding: &'static [&'static str],
    /// Flags that allow the tools that follow them. The client interprets the rules of a tool.
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

    /// Whether the flags decide about edits: by a permission mode, or by allowing one of these tools.
    pub fn decide_edits(&self, flags: &[String], edit_tools: &[&str]) -> bool {
        let names_edit_tool =
            |rules: &str| tool_names(rules).any(|name| edit_tools.contains(&name));
        let mut is_granting = false;
        flags.iter().any(|word| {
            if !word.starts_with('-') {
                return is_granting && names_edit_tool(word);
            }
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            is_granting = self.granting.contains(&name);
            self.deciding.contains(&name) || is_granting && names_edit_tool(value)
        })
    }

    /// Whether the flags allow any tool, or decide about edits.
    pub fn grant_anything(&self, flags: &[String]) -> bool {
        flags.iter().any(|flag| {
            let name = flag.split('=').next().unwrap_or_default();
            self.deciding.contains(&name) || self.granting.contains(&name)
        })
    }
}

/// The tools in a list of rules: `Edit` and `Bash` in `Edit,Bash(git *)`.
fn tool_names(rules: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let is_end = move |char: char| {
        match char {
            '(' => depth = depth.saturating_add(1),
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth <= 0 && (char == ',' || char.is_whitespace())
    };
    rules.split(is_end).map(|rule| rule.split('(').next().unwrap_or_default())
}
