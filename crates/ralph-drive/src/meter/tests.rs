use super::*;
use crate::wire::{self, Line, Usage};
use proptest::prelude::*;
use serde_json::{Value, json};

fn opening() -> Opening {
    Opening {
        session: SessionId::parse("5999882c").unwrap(),
        source: Source::Agent,
        known: Spent::default(),
        turns: 0,
        carried: Spent::default(),
        worst_turn_micro_usd: 1_000_000,
    }
}

fn resumed(micro_usd: u64, tokens: u64, turns: u32) -> Opening {
    let known = Spent { micro_usd, tokens };
    Opening { known, turns, carried: known, ..opening() }
}

fn model(input: u64, output: u64, usd: f64) -> Value {
    json!({ "claude-opus-5-5": {
        "inputTokens": input, "outputTokens": output, "cacheReadInputTokens": 0,
        "cacheCreationInputTokens": 0, "webSearchRequests": 0, "costUSD": usd, "contextWindow": 1_000_000,
    } })
}

fn outcome(line: &Value) -> Outcome {
    let mut line = line.clone();
    line["type"] = json!("result");
    let Line::Result(outcome) = wire::read(line.to_string().as_bytes()) else {
        panic!("{line} is a result");
    };
    *outcome
}

/// A result line with the cost figures that a real client sends.
fn result(total: (u64, u64, f64), since: (u64, u64, f64)) -> Outcome {
    outcome(&json!({
        "type": "result", "subtype": "success", "num_turns": 1, "total_cost_usd": total.2,
        "usage": { "input_tokens": since.0, "output_tokens": since.1, "cache_read_input_tokens": 0,
                   "cache_creation_input_tokens": 0 },
        "modelUsage": model(total.0, total.1, total.2),
        "model_usage_since_last_result": model(since.0, since.1, since.2),
    }))
}

fn without_since(outcome: Outcome) -> Outcome {
    Outcome { since: Vec::new(), ..outcome }
}

fn call(id: &str, tokens: u64) -> Assistant {
    let usage = Usage { cache_read: tokens, ..Usage::default() };
    Assistant { message: Some(id.to_string()), usage: Some(usage), ..Assistant::default() }
}

/// The figures that reach the journal: cost, tokens, turns, and whether the host reported or ralph assumed them.
fn figures(metered: &Metered) -> (u64, u64, u32, Meter) {
    (metered.micro_usd, metered.tokens, metered.turns, metered.meter)
}

use Meter::{Assumed, Told};

/// R-K1b: figures from a session of the real client, with a subagent in the second turn, resumed for the fourth.
#[test]
fn a_session_is_metered_from_its_results() {
    let bills = [
        result((1000, 10, 0.0042), (1000, 10, 0.0042)),
        result((21_000, 210, 0.0882), (20_000, 200, 0.083_999_999_999_999_99)),
        result((25_000, 250, 0.105), (4000, 40, 0.0168)),
    ];
    let fourth = result((30_000, 300, 0.126), (5000, 50, 0.021));
    // An older client reports only its totals.
    for forget in [|bill: Outcome| bill, without_since] {
        let mut tally = Tally::open(opening());
        let seen = bills.clone().map(|bill| figures(&tally.billed(&forget(bill))));
        let third = (105_000, 25_250, 3, Told);
        assert_eq!(seen, [(4200, 1010, 1, Told), (88_200, 21_210, 2, Told), third]);
        let mut tally = Tally::open(resumed(105_000, 25_250, 3));
        assert_eq!(figures(&tally.billed(&forget(fourth.clone()))), (126_000, 30_300, 4, Told));
    }
}

/// R-K1b: a client that was killed restarts its totals, and the cost from before is kept.
#[test]
fn totals_that_restart_add_up() {
    let after = result((5000, 50, 0.021), (5000, 50, 0.021));
    for bill in [after.clone(), without_since(after)] {
        let mut tally = Tally::open(resumed(105_000, 25_250, 3));
        assert_eq!(figures(&tally.billed(&bill)), (126_000, 30_300, 4, Told));
    }
    // `/clear` does the same within a process.
    let mut tally = Tally::open(opening());
    tally.billed(&without_since(result((1000, 0, 0.5), (1000, 0, 0.5))));
    let cleared = without_since(result((300, 0, 0.1), (300, 0, 0.1)));
    assert_eq!(figures(&tally.billed(&cleared)), (600_000, 1300, 2, Told));
    // A fork continues its parent's totals, but is a session of its own.
    let forked = Opening { known: Spent::default(), turns: 0, ..resumed(126_000, 30_300, 0) };
    let bill = result((35_000, 350, 0.147), (5000, 50, 0.021));
    for bill in [bill.clone(), without_since(bill)] {
        assert_eq!(figures(&Tally::open(forked.clone()).billed(&bill)), (21_000, 5050, 1, Told));
    }
}

/// R-K1b: for figures that the host does not report, the worst case is assumed.
#[test]
fn unknown_usage_is_the_worst_case() {
    for (name, line, expected) in [
        ("no figures", json!({ "num_turns": 3 }), (1_000_000, 0, 1, Assumed)),
        ("nothing at all", json!({}), (1_000_000, 0, 1, Assumed)),
        ("odd", json!({ "total_cost_usd": "1", "usage": [] }), (1_000_000, 0, 1, Assumed)),
        ("negative", json!({ "total_cost_usd": -1 }), (1_000_000, 0, 1, Assumed)),
        (
            "tokens without money",
            json!({ "usage": { "input_tokens": 7, "cache_read_input_tokens": 9 } }),
            (1_000_000, 16, 1, Assumed),
        ),
        (
            "a model without a price",
            json!({ "model_usage_since_last_result": { "m": { "inputTokens": 5 } } }),
            (1_000_000, 5, 1, Assumed),
        ),
        (
            "an error before any token",
            json!({ "total_cost_usd": 0, "num_turns": 1 }),
            (0, 0, 1, Told),
        ),
        ("no such session", json!({ "num_turns": 0, "is_error": true }), (0, 0, 0, Told)),
        ("a summary", json!({ "num_turns": 0, "total_cost_usd": 0.48 }), (480_000, 0, 0, Told)),
    ] {
        let mut tally = Tally::open(opening());
        assert_eq!(figures(&tally.billed(&outcome(&line))), expected, "{name}");
    }
}

/// R-K1b: between two results tokens are counted from the agent's messages, once per message. The cost is the client's
/// own figure, else estimated at the highest price, else the worst case.
#[test]
fn a_turn_in_flight_is_counted() {
    let mut tally = Tally::open(opening());
    tally.asked();
    tally.called(&call("msg_1", 1000));
    tally.called(&call("msg_1", 1001));
    tally.called(&call("msg_1", 1000));
    assert_eq!(figures(&tally.so_far()), (1_000_000, 1001, 0, Assumed));
    tally.told(4000);
    assert_eq!(figures(&tally.so_far()), (4000, 1001, 0, Told));
    tally.billed(&result((1000, 10, 0.0042), (1000, 10, 0.0042)));
    assert_eq!(figures(&tally.so_far()), (4200, 1010, 1, Told));
    tally.called(&call("msg_2", 2020));
    assert_eq!(figures(&tally.so_far()), (4200 + 8400, 3030, 1, Assumed));
    // The bill replaces the estimate.
    let cheap = result((3000, 30, 0.005), (2000, 20, 0.0008));
    assert_eq!(figures(&tally.billed(&cheap)), (5000, 3030, 2, Told));
    // The highest price is used.
    tally.called(&call("msg_3", 1010));
    assert_eq!(figures(&tally.so_far()), (5000 + 4200, 4040, 2, Assumed));
}

/// R-K1b: an unbilled turn is not free.
#[test]
fn an_unfinished_turn_is_charged() {
    let mut tally = Tally::open(opening());
    assert_eq!(tally.broken_off(), None);
    tally.asked();
    assert_eq!(tally.broken_off().as_ref().map(figures), Some((1_000_000, 0, 0, Assumed)));
    assert_eq!(tally.broken_off(), None);
    // The recorded cost is no price, because it may be assumed; the client's own total continues from it.
    let mut tally = Tally::open(resumed(10_000, 1000, 1));
    tally.asked();
    tally.called(&call("msg_1", 50));
    tally.told(12_000);
    assert_eq!(tally.broken_off().as_ref().map(figures), Some((12_000, 1050, 1, Assumed)));
    // After a kill the total starts at zero.
    let mut tally = Tally::open(resumed(10_000, 1000, 1));
    tally.asked();
    tally.called(&call("msg_1", 50));
    tally.told(500);
    assert_eq!(tally.broken_off().as_ref().map(figures), Some((10_500, 1050, 1, Assumed)));
}

/// R-K1b: only messages with usage figures count, and only up to the maximum number.
#[test]
fn only_messages_with_usage_count() {
    let mut tally = Tally::open(opening());
    for message in [
        json!({ "id": "a", "model": "<synthetic>", "usage": { "input_tokens": 5 } }),
        json!({ "id": "b", "content": [{ "type": "text", "text": "usage: {\"input_tokens\": 9}" }] }),
        json!({ "usage": { "input_tokens": 5 } }),
        json!({ "id": "c", "usage": { "input_tokens": -5, "output_tokens": "7" } }),
    ] {
        let line = json!({ "type": "assistant", "message": message });
        if let Line::Assistant(line) = wire::read(line.to_string().as_bytes()) {
            tally.called(&line);
        }
    }
    assert_eq!(tally.so_far().tokens, 0);
    for number in 0..2 * MOST_CALLS {
        tally.called(&call(&number.to_string(), 1));
    }
    tally.called(&call(&"x".repeat(LONGEST_ID + 1), 1));
    // One slot is taken by the message with zero tokens.
    assert_eq!(tally.so_far().tokens, 9999);
}

/// R-K1a: the client's own cap is the remaining budget of the run or of the day.
#[test]
fn the_client_is_capped_at_the_remaining_budget() {
    let caps = |most: Option<u64>, spent, today| {
        let limits = Limits { max_cost_micro_usd: most, ..Limits::DEFAULT };
        native_caps(&limits, Spent { micro_usd: spent, tokens: 0 }, today).max_budget_usd
    };
    for (most, spent, today, expected) in [
        (Some(20_000_000), 0, None, Some("20.000000")),
        (Some(20_000_000), 1_820_001, None, Some("18.179999")),
        (Some(20_000_000), 0, Some(5_000_000), Some("5.000000")),
        (None, 7, Some(40), Some("0.000040")),
        (Some(5), 9, None, Some("0.000001")),
        (None, 7, None, None),
    ] {
        assert_eq!(caps(most, spent, today).as_deref(), expected);
    }
}

#[test]
fn the_worst_turn_is_the_most_expensive_so_far() {
    let of = |seen| {
        worst_turn(
            &Driving { worst_turn_micro_usd: seen, ..Driving::default() },
            &Settings::DEFAULT,
        )
    };
    assert_eq!((of(0), of(3)), (1_000_000, 3));
}

proptest! {
    /// Whatever a client reports, the recorded cost never shrinks and nothing panics.
    #[test]
    fn recorded_cost_never_shrinks(
        known in (any::<u64>(), any::<u64>()),
        bills in proptest::collection::vec(
            (any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<(u64, u64)>>(), any::<Option<u64>>()),
            0..20,
        ),
        calls in proptest::collection::vec(any::<u64>(), 0..20),
    ) {
        let mut tally = Tally::open(resumed(known.0, known.1, 0));
        let mut before = tally.spent();
        for (total_micro_usd, total_tokens, since, turns) in bills {
            for (number, tokens) in calls.iter().enumerate() {
                tally.called(&call(&number.to_string(), *tokens));
            }
            let so_far = tally.so_far();
            prop_assert!(so_far.micro_usd >= before.micro_usd && so_far.tokens >= before.tokens);
            let model = |(micro_usd, input)| wire::ModelUsage {
                model: String::new(),
                usage: Usage { input, ..Usage::default() },
                micro_usd,
                window: None,
            };
            let now = tally.billed(&Outcome {
                micro_usd: total_micro_usd,
                models: total_tokens.map(|tokens| model((0, tokens))).into_iter().collect(),
                since: since.map(model).into_iter().collect(),
                num_turns: turns,
                ..Outcome::default()
            });
            prop_assert!(now.micro_usd >= before.micro_usd && now.tokens >= before.tokens);
            before = tally.spent();
        }
    }
}
