//! `ralph completions` and `ralph man`, from the same definition that parses the command line.

use crate::report::Failure;
use crate::term;
use clap_complete::Shell;

pub(crate) fn completions(shell: Shell, command: &mut clap::Command) {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "ralph", &mut script);
    term::bytes(&[], &script);
}

pub(crate) fn man(command: clap::Command) -> Result<(), Failure> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(|error| Failure::because("cannot make the manual page", &error))?;
    term::bytes(&[], &page);
    Ok(())
}
