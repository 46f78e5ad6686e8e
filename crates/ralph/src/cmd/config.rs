//! `ralph config`: prints the policy in force, its origins or its schema.

use super::open_home;
use crate::failure::CommandFailure;
use crate::term;
use clap::Args;
use ralph_core::text;
use ralph_deck::view::effective_policy;
use ralph_home::paths::RalphHome;
use ralph_policy::config::{self, ConfigLayer, ProjectConfig, SettingOrigin};
use ralph_sys::env::Env;
use ralph_sys::fs;
use std::path::{Path, PathBuf};

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph config
  ralph config --explain | grep timeout
  ralph config --schema > ralph.schema.json")]
pub(crate) struct ConfigArgs {
    /// Print each value with the file and line that set it
    #[arg(long, conflicts_with_all = ["json", "schema"])]
    pub explain: bool,
    /// Print the JSON schema of `ralph.toml`
    #[arg(long, conflicts_with = "json")]
    pub schema: bool,
    /// Use this project [default: the nearest parent with a policy]
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

pub(crate) fn run(env: &Env, args: &ConfigArgs) -> Result<(), CommandFailure> {
    if args.schema {
        // The schema consists of strings and numbers; serialising it cannot fail.
        let schema = serde_json::to_string_pretty(&config::json_schema()).unwrap_or_default();
        term::out(&format!("{schema}\n"))?;
        return Ok(());
    }
    let home = open_home(env)?;
    let config = config::load(&project_dir(env, args.project.as_deref())?, &home)?;
    if args.json {
        super::print_json(&effective_policy::config_view(&config)).map(drop)
    } else if args.explain {
        term::out(&render_origins(&config, &home))?;
        Ok(())
    } else {
        term::out(config.to_toml())?;
        Ok(())
    }
}

/// The named directory, or the project of the current directory.
pub(super) fn project_dir(env: &Env, named: Option<&Path>) -> Result<PathBuf, CommandFailure> {
    let here = env.current_dir().ok_or_else(|| {
        CommandFailure::new(
            "the current directory no longer exists",
            "change to a directory that exists",
        )
    })?;
    match named {
        None => Ok(config::find_project(&here)),
        Some(named) => {
            let what = || format!("`{}` is not a directory", named.display());
            let named = here.join(named);
            let there = fs::resolve(&named).filter(|path| fs::is_directory(path));
            there.ok_or_else(|| CommandFailure::new(&what(), "check the path"))
        }
    }
}

fn render_origins(config: &ProjectConfig, home: &RalphHome) -> String {
    let settings: Vec<_> = config
        .origins
        .iter()
        .map(|origin| (format!("{} = {}", origin.key, text::clean(&origin.value)), origin))
        .collect();
    // One long command should not push the origins of all the others out of sight.
    let width = settings
        .iter()
        .map(|(setting, _)| setting.chars().count())
        .filter(|width| *width <= 60)
        .max();
    let width = width.unwrap_or_default();
    let lines = settings.iter().map(|(setting, origin)| {
        let place = term::paint(term::DIM, &origin_label(config, home, origin));
        format!("{setting:<width$}   {place}\n")
    });
    lines.collect()
}

fn origin_label(config: &ProjectConfig, home: &RalphHome, origin: &SettingOrigin) -> String {
    let name = match (origin.location.layer, &config.file) {
        (ConfigLayer::BuiltIn, _) => return "default".to_string(),
        (ConfigLayer::User, _) => home.user_config().display().to_string(),
        (ConfigLayer::Project, Some(file)) => {
            file.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
        }
        (ConfigLayer::Project, None) => String::new(),
    };
    format!("{}:{}", text::clean_line(&name, 500), origin.location.line)
}
