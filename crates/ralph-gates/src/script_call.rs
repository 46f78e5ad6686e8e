//! Finds the command behind a script of `package.json`, such as `npm test`, and how to give it more arguments.

/// Scripts may call other scripts, but not for ever.
const MAX_SCRIPT_DEPTH: usize = 4;
const QUIET_OPTIONS: [&str; 2] = ["--silent", "-s"];

/// A call of a script whose last command gets the arguments that are appended to the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScriptCall {
    /// The call, ready for arguments to be appended.
    pub(crate) call: Vec<String>,
    /// The words of the last command of the script.
    pub(crate) last_command: Vec<String>,
}

/// The text of a script of a `package.json`.
pub fn package_script(manifest: &str, name: &str) -> Option<String> {
    let manifest: serde_json::Value = serde_json::from_str(manifest).ok()?;
    Some(manifest.get("scripts")?.get(name)?.as_str()?.to_string())
}

/// Follows scripts that end with the call of another one. `None` if it is not clear which command gets the arguments.
pub(crate) fn find_script_call(
    words: &[String],
    script: &dyn Fn(&str) -> Option<String>,
) -> Option<ScriptCall> {
    let mut words = words.to_vec();
    for _ in 0..MAX_SCRIPT_DEPTH {
        let called = parse_call(&words)?;
        let text = script(called.name)?;
        let last_command = last_command(&text)?;
        if called.has_arguments || parse_call(&last_command).is_none() {
            // npm takes options for itself unless they follow `--`; the others pass all of them on.
            let separator = (called.is_npm && !called.has_arguments).then(|| "--".to_string());
            let call = words.iter().cloned().chain(separator).collect();
            return Some(ScriptCall { call, last_command });
        }
        words = last_command;
    }
    None
}

struct ParsedScriptCall<'a> {
    name: &'a str,
    is_npm: bool,
    has_arguments: bool,
}

/// `npm test`, `npm run unit -- --ci`, `yarn unit`
fn parse_call(words: &[String]) -> Option<ParsedScriptCall<'_>> {
    let (manager, rest) = words.split_first()?;
    let manager = manager.as_str();
    let mut rest = rest.iter().map(String::as_str).skip_while(|word| QUIET_OPTIONS.contains(word));
    let name = match (manager, rest.next()?) {
        ("npm" | "pnpm" | "yarn" | "bun", "run" | "run-script") => rest.next()?,
        ("npm", "t" | "tst" | "test") | ("pnpm", "t" | "tst") => "test",
        // `bun test` is a runner of its own.
        ("pnpm" | "yarn", name) => name,
        _ => return None,
    };
    let first = rest.next();
    let is_npm = manager == "npm";
    let is_clear = !name.starts_with('-') && (!is_npm || first.is_none_or(|word| word == "--"));
    is_clear.then_some(ParsedScriptCall { name, is_npm, has_arguments: first.is_some() })
}

/// The command of a shell line to which a package manager appends arguments.
fn last_command(line: &str) -> Option<Vec<String>> {
    // The arguments would belong to the last command of a pipe, and not to a comment or a substitution.
    if line.replace("||", "|").contains(['|', '#', '`', '(', ')', '\n']) {
        return None;
    }
    let words = line.rsplit(['&', ';']).next()?.split_whitespace();
    let words: Vec<String> = words.map(str::to_string).collect();
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_reach_the_last_command_of_a_script() {
        let manifest = r#"{"scripts": {"test": "npm run lint && npm run unit", "unit": "c8 mocha --exit", "lint": "eslint .", "first": "mocha && eslint .", "loop": "npm run loop", "piped": "mocha | tee log", "ci": "npm test -- --ci", "env": "CI=1 npm run unit"}}"#;
        let script = |name: &str| package_script(manifest, name);
        let shown = |line: &str| {
            let words: Vec<String> = line.split(' ').map(ToString::to_string).collect();
            find_script_call(&words, &script).map_or("-".to_string(), |it| {
                format!("{} : {}", it.call.join(" "), it.last_command.join(" "))
            })
        };
        for (line, expected) in [
            ("npm test", "npm run unit -- : c8 mocha --exit"),
            ("npm run unit -- --bail", "npm run unit -- --bail : c8 mocha --exit"),
            ("npm run unit --if-present", "-"),
            ("pnpm unit", "pnpm unit : c8 mocha --exit"),
            ("yarn run unit --bail", "yarn run unit --bail : c8 mocha --exit"),
            ("bun run unit", "bun run unit : c8 mocha --exit"),
            ("bun test", "-"),
            ("npm run first", "npm run first -- : eslint ."),
            // Its own arguments come first, so those that follow are for the same command.
            ("npm run ci", "npm test -- --ci : npm run unit"),
            ("npm run env", "npm run env -- : CI=1 npm run unit"),
            ("npm run piped", "-"),
            ("npm run loop", "-"),
            ("npm run none", "-"),
            ("npm --prefix web test", "-"),
            ("mocha", "-"),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
    }
}
