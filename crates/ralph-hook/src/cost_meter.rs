//! Meters what a session costs from the token usage in its transcripts and those of its subagents.
//!
//! Every stop reads only what was appended since the last one, and the first stop only what was written since the run
//! began. Where it stopped is in `meter.json`, which the journal seals with a digest: a file that is missing or was
//! edited is replaced by reading the transcripts again from the start of the run. A session without a run is never
//! metered.

use crate::run_start_search::find_run_start;
use crate::transcript_reader::resolve_transcript;
use ralph_core::digest64::Digest64;
use ralph_core::event::StopEvent;
use ralph_core::model_price::{self, CallUsage, PriceTable};
use ralph_core::record::{CostReading, RunRecord};
use ralph_core::run::RunState;
use ralph_home::client_cost;
use ralph_home::paths::RalphHome;
use ralph_home::store::LoadedRun;
use ralph_home::world::World;
use ralph_host::transcript_usage::{CallLine, TranscriptUsage};
use ralph_policy::{config, price_list};
use ralph_sys::fs::{self, Durability, FileKind, FileStat};
use ralph_sys::{clock, tail};
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::collections::HashSet;
use std::path::Path;

const METER_VERSION: u8 = 1;
const MAX_METER_BYTES: usize = 16 * 1024 * 1024;
const MAX_SUBAGENTS: usize = 100_000;
const MAX_CHUNK_BYTES: usize = 8 * 1024 * 1024;
/// How much one stop reads; the next one continues.
const MAX_READ_BYTES: u64 = 128 * 1024 * 1024;
/// The lines of a call follow each other, so only the last calls of a file can occur again.
const MAX_REMEMBERED_CALLS: usize = 8;
const MAX_UNPRICED: usize = 8;

/// The cost as of one stop.
#[derive(Clone, Debug)]
pub struct MeteredCost {
    pub reading: CostReading,
    /// Content of `meter.json`.
    meter: Vec<u8>,
}

/// Content of `meter.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct SessionMeter {
    v: u8,
    /// What earlier sessions of the run cost, if their transcripts are not known any more.
    #[serde(default, skip_serializing_if = "is_zero")]
    base_nano_usd: u64,
    /// Models without a known price.
    unpriced: Vec<String>,
    transcripts: Vec<MeteredTranscript>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct MeteredTranscript {
    path: String,
    inode: u64,
    offset: u64,
    /// Earlier calls were not made for the run.
    since_ms: u64,
    nano_usd: u64,
    /// The model of the last call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Oldest first.
    calls: Vec<MeteredCall>,
}

#[derive(Debug, Serialize, Deserialize)]
struct MeteredCall {
    id: Digest64,
    nano_usd: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires this signature")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What a meter needs to know about the run.
struct MeterContext<'a> {
    world: &'a World,
    run: &'a RunRecord,
    /// Parsed only if a call has to be priced.
    prices: OnceCell<PriceTable>,
    /// When the run began, or moved to this session.
    since_ms: u64,
    /// Where the run's first transcript ended when the run began.
    first_offset: u64,
}

/// Meters the session of a stop. `None` if a runner does that, or if the event names no transcript.
pub fn meter_cost(world: &World, stop: &StopEvent, opened: &LoadedRun) -> Option<MeteredCost> {
    let named = stop.transcript.as_deref().filter(|_| world.driven.is_none())?;
    let mut context = MeterContext::new(world, opened);
    let mut meter = context.load_meter(opened);
    let main = resolve_transcript(world, named);
    meter.add_session(&context, main.as_deref());
    meter.read_transcripts(&context);
    let bytes = serde_json::to_vec(&meter).ok()?;
    let reading = CostReading {
        estimated_micro_usd: (!meter.transcripts.is_empty()).then(|| meter.micro_usd()),
        reported_micro_usd: client_cost::read_client_cost(&world.home, &opened.run.id),
        unpriced: meter.unpriced,
        meter: meter_digest(&bytes),
    };
    Some(MeteredCost { reading, meter: bytes })
}

impl MeteredCost {
    /// Best effort: without the file, the next stop reads the transcripts again.
    pub fn save(&self, home: &RalphHome, opened: &LoadedRun) {
        drop(fs::replace(&home.run(&opened.run.id).meter(), &self.meter, Durability::Cached));
    }
}

fn meter_digest(bytes: &[u8]) -> Digest64 {
    let hash = blake3::hash(bytes);
    let (first, _) = hash.as_bytes().split_at(8);
    Digest64(first.try_into().map_or(0, u64::from_le_bytes))
}

impl<'a> MeterContext<'a> {
    fn new(world: &'a World, opened: &'a LoadedRun) -> Self {
        let LoadedRun { run, state, .. } = opened;
        let first_offset = if state.moved_ms.is_none() { run.transcript_length } else { 0 };
        let since_ms = run.started_ms.max(state.moved_ms.unwrap_or(0));
        Self { world, run, prices: OnceCell::new(), since_ms, first_offset }
    }

    fn prices(&self) -> &PriceTable {
        self.prices.get_or_init(|| {
            let home = &self.world.home;
            let mut prices = price_list::price_table(&self.run.prices);
            // Prices that were added since the start come last: they may price a model that had none, but cannot make
            // another one cheaper.
            if fs::exists(&home.user_config()) {
                prices.prices.extend(config::load_prices(home).unwrap_or_default());
            }
            prices
        })
    }

    /// The meter of the last stop, or a new one if it cannot be continued.
    fn load_meter(&mut self, opened: &LoadedRun) -> SessionMeter {
        let path = self.world.home.run(&opened.run.id).meter();
        let sealed = opened.state.cost.as_ref().map(|cost| cost.meter);
        let bytes = fs::read_if_exists(&path, MAX_METER_BYTES).ok().flatten();
        let bytes = bytes.filter(|bytes| sealed == Some(meter_digest(bytes)));
        let meter: Option<SessionMeter> =
            bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let has_price = |model: &String| self.prices().find(model).is_some();
        let is_current = |meter: &SessionMeter| {
            meter.v == METER_VERSION && !meter.unpriced.iter().any(has_price)
        };
        meter.filter(is_current).unwrap_or_else(|| self.new_meter(&opened.state))
    }

    /// A meter that reads the transcripts of the session from the start of the run. The transcripts of sessions that the
    /// run has left are not known any more, so a run that moved continues from the cost in its journal.
    fn new_meter(&mut self, state: &RunState) -> SessionMeter {
        let known = state.cost.as_ref().and_then(|cost| cost.estimated_micro_usd);
        let known = known.filter(|_| state.moved_ms.is_some());
        if known.is_some() {
            self.since_ms = self.since_ms.max(state.last_seen_ms);
        }
        let base_nano_usd = known.unwrap_or(0).saturating_mul(1000);
        SessionMeter { v: METER_VERSION, base_nano_usd, ..SessionMeter::default() }
    }
}

impl SessionMeter {
    fn micro_usd(&self) -> u64 {
        let costs = self.transcripts.iter().map(|transcript| transcript.nano_usd);
        let nano = costs.fold(self.base_nano_usd, u64::saturating_add);
        nano.div_ceil(1000)
    }

    /// Adds the transcripts of the session that are new. Those of earlier sessions of the run stay.
    fn add_session(&mut self, context: &MeterContext<'_>, main: Option<&Path>) {
        let Some(main) = main else { return };
        let known: HashSet<String> =
            self.transcripts.iter().map(|transcript| transcript.path.clone()).collect();
        let mut add = |path: &Path, offset: u64| {
            let Some(path) = path.to_str().filter(|path| !known.contains(*path)) else { return };
            let (path, since_ms) = (path.to_string(), context.since_ms);
            let new = MeteredTranscript { path, offset, since_ms, ..MeteredTranscript::default() };
            self.transcripts.push(new);
        };
        add(main, if known.is_empty() { context.first_offset } else { 0 });
        let directory = main.with_extension("").join(context.world.host.files.subagent_transcripts);
        let names = fs::list_if_exists(&directory, MAX_SUBAGENTS).unwrap_or_default();
        for name in names.iter().filter(|name| Path::new(name).extension() == main.extension()) {
            add(&directory.join(name), 0);
        }
    }

    fn read_transcripts(&mut self, context: &MeterContext<'_>) {
        let mut left = MAX_READ_BYTES;
        for transcript in &mut self.transcripts {
            let Some(path) = resolve_transcript(context.world, &transcript.path) else { continue };
            let Some(stat) = fs::stat(&path).filter(|stat| stat.kind == FileKind::File) else {
                continue;
            };
            transcript.follow_rewrite(&stat);
            if transcript.offset == 0 {
                let host = context.world.host;
                transcript.offset = find_run_start(host, &path, stat.len, transcript.since_ms);
            }
            while transcript.offset < stat.len && left > 0 {
                let Ok(chunk) = tail::read_lines_from(&path, transcript.offset, MAX_CHUNK_BYTES)
                else {
                    break;
                };
                let usage = chunk.lines().filter_map(context.world.host.parse_usage_line);
                usage.for_each(|usage| transcript.add_usage(context, usage, &mut self.unpriced));
                if chunk.end == transcript.offset {
                    break;
                }
                left = left.saturating_sub(chunk.end - transcript.offset);
                transcript.offset = chunk.end;
            }
        }
    }
}

impl MeteredTranscript {
    /// A file that was replaced or truncated is read again from its beginning.
    fn follow_rewrite(&mut self, stat: &FileStat) {
        let is_other = self.inode != 0 && self.inode != stat.inode;
        if is_other || self.offset > stat.len {
            let (path, since_ms) = (std::mem::take(&mut self.path), self.since_ms);
            *self = Self { path, since_ms, ..Self::default() };
        }
        self.inode = stat.inode;
    }

    fn add_usage(
        &mut self,
        context: &MeterContext<'_>,
        usage: TranscriptUsage,
        unpriced: &mut Vec<String>,
    ) {
        match usage {
            TranscriptUsage::Call(CallLine { id, timestamp, usage }) => {
                if self.is_of_run(timestamp.as_deref()) {
                    let nano_usd = price_call(context, &usage, unpriced);
                    self.charge_call(Digest64::of_parts(&[id.as_bytes()]), nano_usd);
                }
                self.model = Some(usage.model);
            }
            TranscriptUsage::Compaction { timestamp, read_tokens, written_tokens } => {
                let Some(model) = self.model.clone() else { return };
                if self.is_of_run(timestamp.as_deref()) {
                    // The conversation was cached by the call before.
                    let usage = CallUsage {
                        model,
                        cache_read: read_tokens,
                        output: written_tokens,
                        ..CallUsage::default()
                    };
                    let nano_usd = price_call(context, &usage, unpriced);
                    self.nano_usd = self.nano_usd.saturating_add(nano_usd);
                }
            }
        }
    }

    fn is_of_run(&self, timestamp: Option<&str>) -> bool {
        timestamp.and_then(clock::parse_rfc3339).is_none_or(|at_ms| at_ms >= self.since_ms)
    }

    /// Counts a call once, with the usage of its last line.
    fn charge_call(&mut self, id: Digest64, nano_usd: u64) {
        let known = self.calls.iter().position(|call| call.id == id);
        let charged = known.map_or(0, |at| self.calls.remove(at).nano_usd);
        self.nano_usd = self.nano_usd.saturating_sub(charged).saturating_add(nano_usd);
        self.calls.push(MeteredCall { id, nano_usd });
        if self.calls.len() > MAX_REMEMBERED_CALLS {
            self.calls.remove(0);
        }
    }
}

/// The price of a call. A model without one is noted, and its calls are free.
fn price_call(context: &MeterContext<'_>, usage: &CallUsage, unpriced: &mut Vec<String>) -> u64 {
    if let Some(nano_usd) = context.prices().nano_usd(usage) {
        return nano_usd;
    }
    let model = model_price::shown_model(&usage.model);
    if unpriced.len() < MAX_UNPRICED && !unpriced.contains(&model) {
        unpriced.push(model);
    }
    0
}
