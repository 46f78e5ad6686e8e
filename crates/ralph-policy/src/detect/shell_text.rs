//! A minimal reader of shell text that decides whether a command can run on its own.

/// Splits a script into commands. `None` if that is not possible: control flow, functions, here-documents.
pub(super) fn split_commands(script: &str) -> Option<Vec<String>> {
    let mut commands = Vec::new();
    let mut joined = String::new();
    for line in script.lines() {
        let line = line.trim();
        if joined.is_empty() && (line.is_empty() || line.starts_with('#')) {
            continue;
        }
        joined.push_str(line);
        if joined.ends_with('\\') {
            joined.pop();
            continue;
        }
        if is_control_flow(&joined) {
            return None;
        }
        commands.extend(split_at_and(&joined)?);
        joined.clear();
    }
    if !joined.is_empty() {
        commands.extend(split_at_and(&joined)?);
    }
    Some(commands)
}

fn is_control_flow(line: &str) -> bool {
    let first = line.split_whitespace().next().unwrap_or_default();
    let word = first.trim_end_matches(';');
    matches!(word, "if" | "for" | "while" | "until" | "case" | "select" | "function" | "{" | "}")
        || line.contains("<<")
        || line.contains("() {")
        || line.contains("(){")
}

/// Splits `a && b` into two commands, since each has to succeed. `None` for an unterminated quote.
fn split_at_and(line: &str) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    let mut chars = line.chars().peekable();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (None, '\'' | '"') => quote = Some(char),
            (Some(open), _) if open == char => quote = None,
            (None, '&') if chars.next_if_eq(&'&').is_some() => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(char);
        }
    }
    if quote.is_some() {
        return None;
    }
    let parts = parts.iter().map(|part| part.trim().to_string());
    Some(parts.filter(|part| !part.is_empty()).collect())
}

/// What a command needs in order to run on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CommandShape {
    /// Plain words: no shell is needed.
    Words(Vec<String>),
    /// A shell is needed (globs, redirections, leading assignments), and its exit code is the command's.
    /// The words only serve to recognise the command.
    Shell(Vec<String>),
    /// The exit code may be that of another command (`|`, `;`, `||`, `&`), or variables of the CI are needed.
    Unclear,
}

pub(super) fn command_shape(command: &str) -> CommandShape {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut needs_shell = false;
    let mut chars = command.chars();
    while let Some(char) = chars.next() {
        match char {
            '$' | '`' | '|' | ';' | '&' | '(' | ')' | '\\' | '\n' => return CommandShape::Unclear,
            '!' if word.is_none() => return CommandShape::Unclear,
            '#' if word.is_none() => break,
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let inner = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some(next) if next == char => break,
                        Some('$' | '`' | '\\') if char == '"' => return CommandShape::Unclear,
                        Some(next) => inner.push(next),
                        None => return CommandShape::Unclear,
                    }
                }
            }
            _ => {
                if matches!(char, '*' | '?' | '[' | ']' | '{' | '}' | '<' | '>')
                    || (char == '~' && word.is_none())
                {
                    needs_shell = true;
                }
                word.get_or_insert_default().push(char);
            }
        }
    }
    words.extend(word);
    if words.first().is_some_and(|first| is_assignment(first)) {
        needs_shell = true;
        words = words.into_iter().skip_while(|word| is_assignment(word)).collect();
    }
    match (words.is_empty(), needs_shell) {
        (true, _) => CommandShape::Unclear,
        (false, true) => CommandShape::Shell(words),
        (false, false) => CommandShape::Words(words),
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn scripts_are_split_into_commands() {
        for (script, expected) in [
            ("cargo test", Some(vec!["cargo test"])),
            ("# first\n\ncargo fmt\ncargo \\\n  test", Some(vec!["cargo fmt", "cargo test"])),
            ("cd web && npm test", Some(vec!["cd web", "npm test"])),
            ("echo 'a && b' && c", Some(vec!["echo 'a && b'", "c"])),
            ("if [ x ]; then\n cargo test\nfi", None),
            ("cat <<EOF\nx\nEOF", None),
            ("echo 'never ends", None),
            ("", Some(vec![])),
        ] {
            let expected = expected.map(|list| words(&list));
            assert_eq!(split_commands(script), expected, "{script}");
        }
    }

    #[test]
    fn a_command_needs_an_exit_code_of_its_own() {
        for (command, expected) in [
            ("cargo test --all", CommandShape::Words(words(&["cargo", "test", "--all"]))),
            ("sh -c 'a b' \"c d\"", CommandShape::Words(words(&["sh", "-c", "a b", "c d"]))),
            ("npm test # all", CommandShape::Words(words(&["npm", "test"]))),
            ("CI=1 npm test", CommandShape::Shell(words(&["npm", "test"]))),
            ("shellcheck *.sh", CommandShape::Shell(words(&["shellcheck", "*.sh"]))),
            ("cargo test > log", CommandShape::Shell(words(&["cargo", "test", ">", "log"]))),
            ("cargo test | tee log", CommandShape::Unclear),
            ("cargo test || true", CommandShape::Unclear),
            ("cargo test; echo", CommandShape::Unclear),
            ("cargo test &", CommandShape::Unclear),
            ("! cargo test", CommandShape::Unclear),
            ("pytest $ARGS", CommandShape::Unclear),
            ("pytest \"$ARGS\"", CommandShape::Unclear),
            ("echo `id`", CommandShape::Unclear),
            ("(cargo test)", CommandShape::Unclear),
            ("echo 'x", CommandShape::Unclear),
            ("A=1", CommandShape::Unclear),
            ("", CommandShape::Unclear),
        ] {
            assert_eq!(command_shape(command), expected, "{command}");
        }
    }
}
