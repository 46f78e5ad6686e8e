//! What a stop is doing now: the gates that run, and how far a proof has come.

use crate::gate_wording::{self, SHORTEST_USUAL_MS};
use crate::json_units;
use crate::wording;
use ralph_core::proof::ProofStep;
use ralph_core::text;
use ralph_hook::contract::gate_log::{ActiveGate, GateActivity, StepActivity};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

const LONGEST_NAME: usize = 300;

/// The running gates, and the running steps of a proof. Without any, gates are being prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunActivity {
    pub gates: Vec<ActiveGateRow>,
    pub proof: Vec<ActiveStepRow>,
}

/// A gate that runs now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ActiveGateRow {
    #[serde(rename = "gate")]
    pub name: String,
    #[serde(rename = "since", serialize_with = "json_units::optional_time")]
    pub since_ms: Option<u64>,
    /// How long it has run so far.
    pub elapsed_ms: Option<u64>,
    /// How long it took the last time.
    pub usual_ms: Option<u64>,
    /// The current step of a judge: `asking reviewer 2 of 3`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// A step of a proof that runs now, and how many of its tests ended, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ActiveStepRow {
    #[serde(serialize_with = "step_name")]
    pub step: ProofStep,
    pub done: Option<usize>,
    pub of: Option<usize>,
}

impl RunActivity {
    pub fn from_log(activity: &GateActivity, now_ms: u64) -> Self {
        let gate = |gate: &ActiveGate| ActiveGateRow {
            name: text::clean_line(&gate.name, LONGEST_NAME),
            since_ms: gate.since_ms,
            elapsed_ms: gate.since_ms.map(|since| now_ms.saturating_sub(since)),
            usual_ms: gate.usual_ms,
            step: gate.step.as_deref().map(gate_wording::judge_step),
        };
        let step =
            |&StepActivity { step, done, of }: &StepActivity| ActiveStepRow { step, done, of };
        Self {
            gates: activity.gates.iter().map(gate).collect(),
            proof: activity.proof.iter().map(step).collect(),
        }
    }

    pub fn is_preparing(&self) -> bool {
        self.gates.is_empty() && self.proof.is_empty()
    }

    /// `running tests 12 s of about 40 s, review 3.1 s (asking reviewer 2 of 3)`, or how far the proof is: `old tests on
    /// new code, 31 of 148`
    pub fn describe(&self, now_ms: u64) -> String {
        let Self { gates, proof } = self;
        if !gates.is_empty() {
            let gates: Vec<_> = gates.iter().map(|gate| gate.describe(now_ms)).collect();
            return format!("running {}", gates.join(", "));
        }
        if self.is_preparing() {
            return "preparing gates".to_string();
        }
        proof.iter().map(|step| step.describe()).collect::<Vec<_>>().join("; ")
    }
}

impl ActiveGateRow {
    /// How long it usually takes, unless that is too short to wait for.
    pub fn shown_usual_ms(&self) -> Option<u64> {
        self.usual_ms.filter(|ms| *ms >= SHORTEST_USUAL_MS)
    }

    fn describe(&self, now_ms: u64) -> String {
        let took = self
            .since_ms
            .map(|since| format!(" {}", wording::short_duration(now_ms.saturating_sub(since))));
        let usual = self.shown_usual_ms().filter(|_| took.is_some());
        let usual = usual.map(wording::short_duration);
        let usual = usual.map(|usual| format!(" of about {usual}"));
        let step = self.step.as_deref().map(|step| format!(" ({step})"));
        let times = took.into_iter().chain(usual).chain(step).collect::<String>();
        format!("{}{times}", self.name)
    }
}

impl ActiveStepRow {
    /// `old tests on new code, 31 of 148`
    pub fn describe(self) -> String {
        self.step.describe_progress(self.done, self.of)
    }
}

/// In JSON, `gates` lists the names and `running` the gates.
impl Serialize for RunActivity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let names: Vec<_> = self.gates.iter().map(|gate| &gate.name).collect();
        let mut fields = serializer.serialize_struct("RunActivity", 3)?;
        fields.serialize_field("gates", &names)?;
        fields.serialize_field("running", &self.gates)?;
        fields.serialize_field("proof", &self.proof)?;
        fields.end()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn step_name<S: Serializer>(step: &ProofStep, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(step.name())
}
