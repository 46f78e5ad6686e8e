//! The table of cheats and honest work, in every mode. CI plays only a share of it.

use crate::{CheatsOptions, shell};
use anyhow::{Result, ensure};

pub(crate) fn run(options: &CheatsOptions) -> Result<()> {
    let mut tests = shell::cargo();
    tests.args(["test", "--package", "ralph", "--test", "it", "cheats::the_whole_table"]);
    tests.args(["--", "--ignored", "--nocapture"]).env("RALPH_REQUIRE_TOOLS", "1");
    tests.env("RALPH_GENERATE", "1").env("RALPH_CHEATS", options.only.as_deref().unwrap_or(""));
    ensure!(tests.status()?.success(), "cases ended with a status that they do not deserve");
    Ok(())
}
