//! `ralph completions` and `ralph man`, generated from the definition of the command line.

use crate::failure::CommandFailure;
use crate::term;
use clap_complete::Shell;

pub(crate) fn completions(shell: Shell, command: &mut clap::Command) -> Result<(), CommandFailure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, command, "ralph", &mut script);
    term::out(&String::from_utf8_lossy(&script))?;
    Ok(())
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
