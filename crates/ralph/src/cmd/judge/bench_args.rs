//! The arguments of `ralph judge bench`, and the judge that they describe.

use crate::cmd::plan::parse_cost;
use crate::value_parsers::{parse_duration, parse_positive_count};
use clap::Args;
use clap::builder::PossibleValuesParser;
use ralph_core::judge::{Judge, JudgeApi, JudgeBackend, JudgeEndpoint, JudgeHost, JudgeKind};
use ralph_core::requirement::RequirementWeight;
use ralph_judge::presets::{PRESET_KINDS, kind_name};
use std::path::PathBuf;

const DEFAULT_TOKENS: u32 = 20_000;
const DEFAULT_TIMEOUT: &str = "3m";
const DEFAULT_REVIEWERS: u32 = 3;

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
found. A verdict that it could not give is neither.")]
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
    #[arg(long, value_name = "N", conflicts_with = "judge", default_value_t = DEFAULT_REVIEWERS, value_parser = parse_positive_count)]
    pub reviewers: u32,
    /// Use at most this many tokens for a verdict
    #[arg(long, value_name = "N", conflicts_with = "judge", default_value_t = DEFAULT_TOKENS, value_parser = parse_positive_count)]
    pub max_tokens: u32,
    /// Wait at most this long for a verdict
    #[arg(long, value_name = "DURATION", conflicts_with = "judge", default_value = DEFAULT_TIMEOUT, value_parser = parse_duration)]
    pub timeout: u64,
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
        Some(Judge {
            name: "bench".to_string(),
            kind: kind.unwrap_or_default(),
            backend,
            prompt: None,
            prompt_file: None,
            max_tokens: u64::from(self.max_tokens),
            timeout_ms: self.timeout,
            reviewers: u8::try_from(self.reviewers).unwrap_or(u8::MAX),
            weight: RequirementWeight::Required,
            counts: false,
            when: Vec::new(),
            min_complexity: 0,
        })
    }
}
