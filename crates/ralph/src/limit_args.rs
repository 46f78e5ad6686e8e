//! The options that set limits, generated from the table of limits.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use ralph_core::limits::{LimitDefinition, LimitOverrides, LimitUnit, RUN_LIMITS};
use std::marker::PhantomData;

/// The limits of a new run.
pub(crate) type NewLimitArgs = LimitArgs<NewRunHelp>;
/// The limits of an existing run, which count from its start.
pub(crate) type TotalLimitArgs = LimitArgs<ExistingRunHelp>;

#[derive(Clone, Default)]
pub(crate) struct LimitArgs<H> {
    overrides: LimitOverrides,
    help: PhantomData<H>,
}

/// The help that a command shows for a limit.
pub(crate) trait LimitHelp {
    fn help(limit: &LimitDefinition) -> &'static str;
}

#[derive(Clone, Default)]
pub(crate) struct NewRunHelp;

#[derive(Clone, Default)]
pub(crate) struct ExistingRunHelp;

impl LimitHelp for NewRunHelp {
    fn help(limit: &LimitDefinition) -> &'static str {
        limit.start_help
    }
}

impl LimitHelp for ExistingRunHelp {
    fn help(limit: &LimitDefinition) -> &'static str {
        limit.total_help
    }
}

impl<H> LimitArgs<H> {
    pub(crate) fn overrides(&self) -> LimitOverrides {
        self.overrides
    }
}

impl<H: LimitHelp> Args for LimitArgs<H> {
    fn augment_args(command: Command) -> Command {
        command.args(RUN_LIMITS.iter().map(|limit| limit_arg(limit, H::help(limit))))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<H> FromArgMatches for LimitArgs<H> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self { overrides: LimitOverrides::default(), help: PhantomData };
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for limit in &RUN_LIMITS {
            if let Some(value) = matches.get_one::<u64>(limit.key) {
                self.overrides.set(limit.kind, *value);
            }
        }
        Ok(())
    }
}

fn limit_arg(limit: &'static LimitDefinition, help: &'static str) -> Arg {
    let arg = Arg::new(limit.key)
        .long(limit.option.trim_start_matches('-'))
        .value_name(limit.unit.placeholder())
        .help(help)
        // A negative number gets an error about the value, not about an unknown option.
        .allow_negative_numbers(true)
        .value_parser(|text: &str| parse_limit(limit.unit, text));
    match limit.option_alias {
        Some(alias) => arg.visible_alias(alias.trim_start_matches('-')),
        None => arg,
    }
}

fn parse_limit(unit: LimitUnit, text: &str) -> Result<u64, String> {
    unit.parse(text).ok_or_else(|| match unit {
        LimitUnit::MicroUsd if text.starts_with('-') => {
            "expected a positive amount such as `20`; 0 means no limit".to_string()
        }
        LimitUnit::Count(_)
        | LimitUnit::Milliseconds
        | LimitUnit::MicroUsd
        | LimitUnit::Tokens
        | LimitUnit::Permille => format!("expected {}", unit.expected_instead_of(text)),
    })
}
