//! Metrics over all kept runs, in the text format of Prometheus.
//!
//! All of them are gauges: `ralph clean` removes old runs, and a counter must not fall.

use super::stats::{StatsGate, StatsProject, StatsRows, StatsRun};
use std::collections::BTreeMap;
use std::fmt::Write;

/// How many gates have their own series. The others are one series together.
const MAX_GATES: usize = 100;
const OTHER_GATES: &str = "(other)";

/// One metric and its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    pub name: &'static str,
    pub help: &'static str,
    /// As OpenTelemetry writes it: `s`, `{run}`.
    pub unit: &'static str,
    pub samples: Vec<MetricSample>,
}

/// A value with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSample {
    pub labels: Vec<(&'static str, String)>,
    /// In thousandths or millionths, so that no digit is lost.
    pub value: MetricValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricValue {
    Count(u64),
    /// Shown in seconds.
    Milliseconds(u64),
    /// Shown in dollars.
    MicroUsd(u64),
}

impl MetricValue {
    /// A decimal number without loss.
    pub fn decimal(self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Milliseconds(ms) => format!("{}.{:03}", ms / 1000, ms % 1000),
            Self::MicroUsd(micro) => format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000),
        }
    }
}

/// The metrics of all kept runs.
pub fn metric_families(rows: StatsRows) -> Vec<MetricFamily> {
    let rows = rows.cleaned();
    let runs = || rows.runs.iter().filter(|run| !run.is_session);
    let total = |value: MetricValue| vec![MetricSample { labels: Vec::new(), value }];
    let count = |is: &dyn Fn(&StatsRun) -> bool| {
        total(MetricValue::Count(as_u64(rows.runs.iter().filter(|run| is(run)).count())))
    };
    let sum = |of: fn(&StatsRun) -> u64| runs().map(of).fold(0, u64::saturating_add);
    let mut states: BTreeMap<&str, u64> = BTreeMap::new();
    for run in runs() {
        *states.entry(run.state()).or_default() += 1;
    }
    let held = sum(|run| run.held.into());
    let mut families = vec![
        MetricFamily {
            name: "ralph_runs",
            help: "Runs by their state.",
            unit: "{run}",
            samples: states.iter().map(|(state, runs)| labelled("state", state, *runs)).collect(),
        },
        MetricFamily {
            name: "ralph_runs_active",
            help: "Runs that have not ended.",
            unit: "{run}",
            samples: count(&|run| !run.is_session && run.ended_ms.is_none()),
        },
        MetricFamily {
            name: "ralph_gated_sessions",
            help: "Sessions without a run that gates held.",
            unit: "{session}",
            samples: count(&|run| run.is_session),
        },
        MetricFamily {
            name: "ralph_questions_open",
            help: "Runs that wait for an answer of a person.",
            unit: "{question}",
            samples: count(&|run| !run.is_session && run.is_asking),
        },
        MetricFamily {
            name: "ralph_stops",
            help: "Decided stops of runs, by whether the agent was held.",
            unit: "{stop}",
            samples: vec![
                labelled("outcome", "held", held),
                labelled("outcome", "let_go", sum(|run| run.stops.into()).saturating_sub(held)),
            ],
        },
        MetricFamily {
            name: "ralph_spend_usd",
            help: "What runs cost, in US dollars, as far as it is known.",
            unit: "USD",
            samples: total(MetricValue::MicroUsd(sum(|run| run.micro_usd.unwrap_or(0)))),
        },
        MetricFamily {
            name: "ralph_tokens",
            help: "Tokens of runs that `ralph run` drives.",
            unit: "{token}",
            samples: total(MetricValue::Count(sum(|run| run.tokens.unwrap_or(0)))),
        },
    ];
    families.extend(gate_families(&rows));
    families
}

/// The results of a gate in all runs and at all sites.
#[derive(Default)]
struct GateSums {
    executed: u64,
    cached: u64,
    passed: u64,
    failed: u64,
    no_result: u64,
    flaky: u64,
    took_ms: u64,
    saved_ms: u64,
}

impl GateSums {
    fn add(&mut self, gate: &StatsGate) {
        self.executed = self.executed.saturating_add(u64::from(gate.executed));
        self.cached = self.cached.saturating_add(u64::from(gate.cached));
        self.passed = self.passed.saturating_add(u64::from(gate.passed));
        self.failed = self.failed.saturating_add(u64::from(gate.failed));
        self.no_result = self.no_result.saturating_add(u64::from(gate.no_result));
        self.flaky = self.flaky.saturating_add(u64::from(gate.flaky));
        self.took_ms = self.took_ms.saturating_add(gate.took_ms);
        self.saved_ms = self.saved_ms.saturating_add(gate.saved_ms);
    }
}

fn gate_families(rows: &StatsRows) -> Vec<MetricFamily> {
    let gates = bounded_gates(rows);
    let samples = |label: Option<&'static str>,
                   values: fn(&GateSums) -> Vec<(&'static str, MetricValue)>| {
        let mut samples = Vec::new();
        for ((project, gate), sums) in &gates {
            for (name, value) in values(sums) {
                let mut labels = vec![("project", project.clone()), ("gate", gate.clone())];
                labels.extend(label.map(|label| (label, name.to_string())));
                samples.push(MetricSample { labels, value });
            }
        }
        samples
    };
    vec![
        MetricFamily {
            name: "ralph_gate_results",
            help: "Results of gates.",
            unit: "{result}",
            samples: samples(Some("result"), |sums| {
                vec![
                    ("passed", MetricValue::Count(sums.passed)),
                    ("failed", MetricValue::Count(sums.failed)),
                    ("no_result", MetricValue::Count(sums.no_result)),
                ]
            }),
        },
        MetricFamily {
            name: "ralph_gate_executions",
            help: "Results of gates by whether the gate ran or its result was known already.",
            unit: "{result}",
            samples: samples(Some("source"), |sums| {
                vec![
                    ("executed", MetricValue::Count(sums.executed)),
                    ("cached", MetricValue::Count(sums.cached)),
                ]
            }),
        },
        MetricFamily {
            name: "ralph_gate_seconds",
            help: "Time of gates: what they took, and what known results saved.",
            unit: "s",
            samples: samples(Some("kind"), |sums| {
                vec![
                    ("took", MetricValue::Milliseconds(sums.took_ms)),
                    ("saved", MetricValue::Milliseconds(sums.saved_ms)),
                ]
            }),
        },
        MetricFamily {
            name: "ralph_gate_flaky_results",
            help: "Results of gates that differ from another one on the same content.",
            unit: "{result}",
            samples: samples(None, |sums| vec![("", MetricValue::Count(sums.flaky))]),
        },
    ]
}

/// The gates with the most results by the name of their project, and all others as one. Projects of the same name are
/// one: a path could reveal a name or a customer to everyone who reads the metrics.
fn bounded_gates(rows: &StatsRows) -> BTreeMap<(String, String), GateSums> {
    let runs = rows.by_id();
    let mut gates: BTreeMap<(String, String), GateSums> = BTreeMap::new();
    for gate in &rows.gates {
        let Some(run) = runs.get(gate.run.as_str()) else { continue };
        let key = (StatsProject::of(&run.project).name, gate.name.clone());
        gates.entry(key).or_default().add(gate);
    }
    if gates.len() <= MAX_GATES {
        return gates;
    }
    let mut ordered: Vec<_> = gates.into_iter().collect();
    ordered.sort_by_key(|(_, sums)| std::cmp::Reverse(sums.executed.saturating_add(sums.cached)));
    let mut other = GateSums::default();
    for (_, sums) in ordered.drain(MAX_GATES..) {
        other.merge(&sums);
    }
    let mut kept: BTreeMap<_, _> = ordered.into_iter().collect();
    kept.insert((OTHER_GATES.to_string(), OTHER_GATES.to_string()), other);
    kept
}

impl GateSums {
    fn merge(&mut self, sums: &Self) {
        self.executed = self.executed.saturating_add(sums.executed);
        self.cached = self.cached.saturating_add(sums.cached);
        self.passed = self.passed.saturating_add(sums.passed);
        self.failed = self.failed.saturating_add(sums.failed);
        self.no_result = self.no_result.saturating_add(sums.no_result);
        self.flaky = self.flaky.saturating_add(sums.flaky);
        self.took_ms = self.took_ms.saturating_add(sums.took_ms);
        self.saved_ms = self.saved_ms.saturating_add(sums.saved_ms);
    }
}

/// The text format of Prometheus, version 0.0.4.
pub fn prometheus_text(families: &[MetricFamily]) -> String {
    let mut out = String::new();
    for MetricFamily { name, help, samples, .. } in families {
        if samples.is_empty() {
            continue;
        }
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
        for sample in samples {
            let labels: Vec<_> = sample
                .labels
                .iter()
                .map(|(label, value)| format!("{label}=\"{}\"", escape_label(value)))
                .collect();
            let labels =
                if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(out, "{name}{labels} {}", sample.value.decimal());
        }
    }
    out
}

fn escape_label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn labelled(label: &'static str, value: &str, count: u64) -> MetricSample {
    MetricSample { labels: vec![(label, value.to_string())], value: MetricValue::Count(count) }
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_rows(gate_names: &[String]) -> StatsRows {
        let run = |id: &str, status: &str| StatsRun {
            id: id.to_string(),
            project: "/home/you/shop".to_string(),
            status: status.to_string(),
            ended_ms: (status == "verified").then_some(1),
            micro_usd: Some(1_820_007),
            tokens: Some(41_000),
            stops: 4,
            held: 3,
            is_asking: status == "parked",
            ..StatsRun::default()
        };
        let gate = |name: &String| StatsGate {
            run: "a".to_string(),
            name: name.clone(),
            executed: 3,
            cached: 1,
            passed: 3,
            failed: 1,
            took_ms: 12_034,
            saved_ms: 4_000,
            ..StatsGate::default()
        };
        let session = StatsRun { is_session: true, ..run("c", "held") };
        StatsRows {
            runs: vec![run("a", "verified"), run("b", "parked"), session],
            gates: gate_names.iter().map(gate).collect(),
            ..StatsRows::default()
        }
    }

    fn text_of(gate_names: &[&str]) -> String {
        let names: Vec<_> = gate_names.iter().map(ToString::to_string).collect();
        prometheus_text(&metric_families(sample_rows(&names)))
    }

    /// Parses the exposition format strictly and returns every series with its value.
    fn parse_exposition(text: &str) -> Vec<(String, String)> {
        assert!(text.ends_with('\n'));
        let is_name = |name: &str| {
            name.starts_with("ralph_")
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
        };
        let mut series: Vec<(String, String)> = Vec::new();
        let mut family = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                family = rest.split_once(' ').unwrap().0;
                assert!(is_name(family), "{line}");
                assert!(
                    !text
                        .lines()
                        .any(|other| other != line
                            && other.starts_with(&format!("# HELP {family} ")))
                );
                continue;
            }
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                assert_eq!(rest, format!("{family} gauge"));
                continue;
            }
            let (key, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = match key.split_once('{') {
                Some((name, labels)) => (name, labels.strip_suffix('}').unwrap()),
                None => (key, ""),
            };
            assert_eq!(name, family);
            let mut rest = labels;
            while !rest.is_empty() {
                let (label, quoted) = rest.split_once("=\"").unwrap();
                assert!(label.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'));
                let mut end = None;
                let mut characters = quoted.char_indices();
                while let Some((at, character)) = characters.next() {
                    match character {
                        '\\' => {
                            let (_, escaped) = characters.next().unwrap();
                            assert!(matches!(escaped, '\\' | '"' | 'n'), "{line}");
                        }
                        '"' => {
                            end = Some(at);
                            break;
                        }
                        _ => {}
                    }
                }
                rest = &quoted[end.unwrap() + 1..];
                rest = rest.strip_prefix(',').unwrap_or(rest);
            }
            assert!(!series.iter().any(|(known, _)| known == key), "twice: {key}");
            assert!(value.parse::<f64>().is_ok(), "{line}");
            series.push((key.to_string(), value.to_string()));
        }
        series
    }

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let text = text_of(&["tests"]);
        parse_exposition(&text);
        insta::assert_snapshot!(text, @r#"
        # HELP ralph_runs Runs by their state.
        # TYPE ralph_runs gauge
        ralph_runs{state="parked"} 1
        ralph_runs{state="verified"} 1
        # HELP ralph_runs_active Runs that have not ended.
        # TYPE ralph_runs_active gauge
        ralph_runs_active 1
        # HELP ralph_gated_sessions Sessions without a run that gates held.
        # TYPE ralph_gated_sessions gauge
        ralph_gated_sessions 1
        # HELP ralph_questions_open Runs that wait for an answer of a person.
        # TYPE ralph_questions_open gauge
        ralph_questions_open 1
        # HELP ralph_stops Decided stops of runs, by whether the agent was held.
        # TYPE ralph_stops gauge
        ralph_stops{outcome="held"} 6
        ralph_stops{outcome="let_go"} 2
        # HELP ralph_spend_usd What runs cost, in US dollars, as far as it is known.
        # TYPE ralph_spend_usd gauge
        ralph_spend_usd 3.640014
        # HELP ralph_tokens Tokens of runs that `ralph run` drives.
        # TYPE ralph_tokens gauge
        ralph_tokens 82000
        # HELP ralph_gate_results Results of gates.
        # TYPE ralph_gate_results gauge
        ralph_gate_results{project="shop",gate="tests",result="passed"} 3
        ralph_gate_results{project="shop",gate="tests",result="failed"} 1
        ralph_gate_results{project="shop",gate="tests",result="no_result"} 0
        # HELP ralph_gate_executions Results of gates by whether the gate ran or its result was known already.
        # TYPE ralph_gate_executions gauge
        ralph_gate_executions{project="shop",gate="tests",source="executed"} 3
        ralph_gate_executions{project="shop",gate="tests",source="cached"} 1
        # HELP ralph_gate_seconds Time of gates: what they took, and what known results saved.
        # TYPE ralph_gate_seconds gauge
        ralph_gate_seconds{project="shop",gate="tests",kind="took"} 12.034
        ralph_gate_seconds{project="shop",gate="tests",kind="saved"} 4.000
        # HELP ralph_gate_flaky_results Results of gates that differ from another one on the same content.
        # TYPE ralph_gate_flaky_results gauge
        ralph_gate_flaky_results{project="shop",gate="tests"} 0
        "#);
    }

    #[test]
    fn hostile_names_cannot_add_a_series() {
        let text = text_of(&["a\"} 1\nralph_runs 9\n", "b\\", "c\u{1b}[31m\u{202e}\",gate=\"x"]);
        let series = parse_exposition(&text);
        assert!(!series.iter().any(|(key, _)| key == "ralph_runs"), "{text}");
        assert_eq!(series.iter().filter(|(key, _)| key.starts_with("ralph_gate_flaky")).count(), 3);
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let names: Vec<_> = (0..5000).map(|number| format!("gate-{number}")).collect();
        let text = prometheus_text(&metric_families(sample_rows(&names)));
        let series = parse_exposition(&text);
        assert!(series.len() < 900, "{}", series.len());
        let passed = |(key, value): &(String, String)| {
            key.contains("result=\"passed\"").then(|| value.parse::<u64>().unwrap())
        };
        assert_eq!(series.iter().filter_map(passed).sum::<u64>(), 15_000);
    }

    #[test]
    fn without_runs_every_metric_is_zero() {
        let text = prometheus_text(&metric_families(StatsRows::default()));
        let is_zero = |value: &str| value.bytes().all(|byte| b"0.".contains(&byte));
        assert!(parse_exposition(&text).iter().all(|(_, value)| is_zero(value)), "{text}");
    }
}
