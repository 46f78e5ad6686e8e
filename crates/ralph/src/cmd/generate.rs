//! `ralph completions` and `ralph man`, generated from the definition of the command line.

use crate::failure::CommandFailure;
use crate::term;
use clap_complete::Shell;

/// The names of runs, gates and requirements change, so the scripts ask `ralph complete-words` for them.
const BASH_NAMES: &str = r#"
_ralph_with_names() {
    _ralph "$@"
    local name
    while IFS= read -r name; do
        COMPREPLY+=("$(printf '%q' "$name")")
    done < <(ralph complete-words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _ralph_with_names -o bashdefault -o default ralph
"#;
const ZSH_NAMES: &str = r#"
_ralph_names() {
    local -a typed names
    typed=("${(@Qz)LBUFFER}")
    [[ $LBUFFER == *' ' ]] && typed+=('')
    names=("${(@f)$(ralph complete-words -- "${(@)typed[2,-1]}" 2>/dev/null)}")
    if [[ -n $names ]]; then compadd -a names; else _default; fi
}
"#;
const FISH_NAMES: &str = "\ncomplete -c ralph -a '(ralph complete-words -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)'\n";

pub(crate) fn completions(shell: Shell, command: &mut clap::Command) -> Result<(), CommandFailure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "ralph", &mut script);
    term::out(&with_names(shell, &String::from_utf8_lossy(&script)))?;
    Ok(())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the set of shells is open")]
fn with_names(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => format!("{script}{BASH_NAMES}"),
        Shell::Fish => format!("{script}{FISH_NAMES}"),
        Shell::Zsh => {
            // Before the call at the end of the script.
            let script = script.replace(":_default'", ":_ralph_names'");
            match script.split_once("\n_ralph() {") {
                Some((head, rest)) => format!("{head}\n{ZSH_NAMES}\n_ralph() {{{rest}"),
                None => script,
            }
        }
        _ => script.to_string(),
    }
}

pub(crate) fn man(all: clap::Command, name: Option<&str>) -> Result<(), CommandFailure> {
    let command = match name {
        None => all,
        Some(name) => {
            let hint = "`ralph --help` lists the commands";
            let missing = || CommandFailure::new(&format!("there is no command `{name}`"), hint);
            let one = all.find_subcommand(name).ok_or_else(missing)?;
            let title: &'static str = format!("ralph-{}", one.get_name()).leak();
            one.clone().name(title).bin_name(format!("ralph {name}"))
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(|error| CommandFailure::caused_by("cannot make the manual page", &error))?;
    term::out(&String::from_utf8_lossy(&page))?;
    Ok(())
}
