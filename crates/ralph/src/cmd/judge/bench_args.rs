//! The arguments of `ralph judge bench`, and the judge that they describe.

use crate::cmd::plan::parse_cost;
use crate::value_parsers::{parse_duration, parse_positive_count};
use clap::Args;
use clap::builder::PossibleValuesParser;
use ralph_core::judge::{Judge, JudgeApi, JudgeBackend, JudgeEndpoint, JudgeHost, JudgeKind};
use ralph_judge::presets::{PRESET_KINDS, kind_name};
use ralph_policy::config::default_judge;
use std::path::PathBuf;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph judge bench --host claude --model haiku --max-cost 2
  ralph judge bench --http https://api.anthropic.com \\
    --key ANTHROPIC_API_KEY --model claude-haiku-4-5 --kind adversarial
  ralph judge bench --judge review --case go-map-race
  ralph judge bench --json -- ./judge | jq .score
  ralph judge bench --list

Precision: of the changes that the judge objected to, the share with a
defect at the place it named. Recall: of the 20 defects, the share that it
found. A verdict that it could not give is neither.

A judge of kind `prompt` is asked once whether a change meets the goal;
`amended` asks whether the goal asked for the changes to existing tests.
`ralph judge presets` lists all kinds. Reviewers, tokens and time are by
default those of a `[[judge]]` without these keys.")]
pub(crate) struct BenchArgs {
    /// Measure this judge of the project's policy
    #[arg(long, value_name = "NAME", conflicts_with_all = ["host", "http", "command"])]
    pub judge: Option<String>,
    /// Measure a host's program, headless
    #[arg(long, value_name = "HOST", conflicts_with_all = ["http", "command"])]
    pub host: Option<String>,
    /// Run this program as the host [default: the one on `PATH`]
    #[arg(long, value_name = "PATH", requires = "host")]
    pub host_program: Option<PathBuf>,
    /// Measure a model behind this address
    #[arg(long, value_name = "URL", conflicts_with = "command", requires = "model")]
    pub http: Option<String>,
    /// Take the key from this environment variable
    #[arg(long, value_name = "VARIABLE", requires = "http")]
    pub key: Option<String>,
    /// Use this wire format [default: anthropic]
    #[arg(long, value_name = "API", requires = "http", value_parser = ["anthropic", "openai"])]
    pub api: Option<String>,
    /// Use this model
    #[arg(long, value_name = "MODEL", conflicts_with = "judge")]
    pub model: Option<String>,
    /// Ask as this kind of judge [default: prompt]
    #[arg(long, value_name = "KIND", conflicts_with = "judge", value_parser = PossibleValuesParser::new(PRESET_KINDS.map(kind_name)))]
    pub kind: Option<String>,
    /// Ask this many reviewers, for the kind `adversarial`
    #[arg(long, value_name = "N", conflicts_with = "judge", value_parser = parse_positive_count)]
    pub reviewers: Option<u32>,
    /// Use at most this many tokens for a verdict
    #[arg(long, value_name = "N", conflicts_with = "judge", value_parser = parse_positive_count)]
    pub max_tokens: Option<u32>,
    /// Wait at most this long for a verdict
    #[arg(long, value_name = "DURATION", conflicts_with = "judge", value_parser = parse_duration)]
    pub timeout: Option<u64>,
    /// Stop asking once this much is spent
    #[arg(long, value_name = "USD", value_parser = parse_cost)]
    pub max_cost: Option<u64>,
    /// Use only this case; may be given several times
    #[arg(long, value_name = "NAME")]
    pub case: Vec<String>,
    /// List the cases, and ask nothing
    #[arg(long)]
    pub list: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Measure this command: the case on stdin, the answer on stdout
    #[arg(value_name = "COMMAND", last = true)]
    pub command: Vec<String>,
}

impl BenchArgs {
    /// The judge that the options describe; `None` if they name no backend.
    pub(super) fn described_judge(&self) -> Option<Judge> {
        let backend = match (&self.host, &self.http, &self.command[..]) {
            (Some(host), _, _) => {
                JudgeBackend::Host(JudgeHost { host: host.clone(), model: self.model.clone() })
            }
            (_, Some(url), _) => JudgeBackend::Http(JudgeEndpoint {
                url: url.clone(),
                key: self.key.clone(),
                model: self.model.clone().unwrap_or_default(),
                api: match self.api.as_deref() {
                    Some("openai") => JudgeApi::OpenAi,
                    Some(_) | None => JudgeApi::Anthropic,
                },
            }),
            (_, _, []) => return None,
            (_, _, command) => JudgeBackend::Command(command.to_vec()),
        };
        let kind = self.kind.as_deref().unwrap_or(kind_name(JudgeKind::Prompt));
        let kind = PRESET_KINDS.into_iter().find(|known| kind_name(*known) == kind);
        let defaults = default_judge();
        let reviewers = self.reviewers.map(|count| u8::try_from(count).unwrap_or(u8::MAX));
        Some(Judge {
            name: "bench".to_string(),
            kind: kind.unwrap_or_default(),
            backend,
            max_tokens: self.max_tokens.map_or(defaults.max_tokens, u64::from),
            timeout_ms: self.timeout.unwrap_or(defaults.timeout_ms),
            reviewers: reviewers.unwrap_or(defaults.reviewers),
            ..defaults
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct BenchLine {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn described(words: &[&str]) -> Judge {
        let line = BenchLine::try_parse_from([&["bench"], words].concat()).unwrap();
        line.args.described_judge().unwrap()
    }

    /// A benchmark measures the judge that the policy would have.
    #[test]
    fn a_described_judge_has_the_defaults_of_the_policy() {
        let judge = described(&["--host", "claude"]);
        let host = JudgeHost { host: "claude".to_string(), model: None };
        let expected = Judge {
            name: "bench".to_string(),
            backend: JudgeBackend::Host(host),
            ..default_judge()
        };
        assert_eq!(judge, expected);
        assert_eq!((judge.max_tokens, judge.timeout_ms, judge.reviewers), (20_000, 300_000, 2));
        let words =
            ["--host", "claude", "--max-tokens", "5", "--timeout", "1m", "--reviewers", "4"];
        let judge = described(&words);
        assert_eq!((judge.max_tokens, judge.timeout_ms, judge.reviewers), (5, 60_000, 4));
    }
}
