//! `[[judge]]`: what is accepted, and what a mistake is answered with.

use super::{ConfigSandbox, format_problems, load_project};
use insta::assert_snapshot;
use ralph_core::judge::{JudgeApi, JudgeBackend, JudgeEndpoint, JudgeHost, JudgeKind};

fn judge_with(backend: &str) -> String {
    format!("[[judge]]\nname = \"review\"\nkind = \"prompt\"\nbackend = {backend}\n")
}

#[test]
fn backends_are_parsed() {
    let backend =
        |text: &str| load_project(judge_with(text)).unwrap().policy.judges[0].backend.clone();
    let endpoint = |url: &str, key: Option<&str>, api| {
        let key = key.map(ToString::to_string);
        JudgeBackend::Http(JudgeEndpoint { url: url.to_string(), key, model: "m".to_string(), api })
    };
    assert_eq!(
        [
            backend("{ command = [\"./judge\", \"--strict\"] }"),
            backend("{ host = \"claude\", model = \"opus\" }"),
            backend(
                "{ http = \"https://api.example.org/v1\", key = \"EXAMPLE_KEY\", model = \"m\" }"
            ),
            backend("{ http = \"http://127.0.0.1:8080\", model = \"m\", api = \"openai\" }"),
            backend("{ http = \"http://[::1]:8080/x\", model = \"m\", api = \"anthropic\" }"),
            backend("{ http = \"http://localhost\", model = \"m\" }"),
        ],
        [
            JudgeBackend::Command(vec!["./judge".to_string(), "--strict".to_string()]),
            JudgeBackend::Host(JudgeHost {
                host: "claude".to_string(),
                model: Some("opus".to_string())
            }),
            endpoint("https://api.example.org/v1", Some("EXAMPLE_KEY"), JudgeApi::Anthropic),
            endpoint("http://127.0.0.1:8080", None, JudgeApi::OpenAi),
            endpoint("http://[::1]:8080/x", None, JudgeApi::Anthropic),
            endpoint("http://localhost", None, JudgeApi::Anthropic),
        ]
    );
}

#[test]
fn a_prompt_is_read_with_the_policy() {
    let place = ConfigSandbox::new();
    place.write(
        "project/ralph.toml",
        format!("{}prompt = \"./review.md\"\n", judge_with("{ host = \"claude\" }")),
    );
    let judge = place.load().unwrap().policy.judges[0].clone();
    assert_eq!(judge.kind, JudgeKind::Prompt);
    assert_eq!(judge.prompt_file.as_deref(), Some("review.md"));
    assert_eq!(judge.prompt.as_deref(), Some("Look for missing cases.\n"));
}

/// A key that stands in the file by mistake is never repeated.
#[test]
fn mistakes_are_named_with_a_suggestion() {
    let secret = "sk-ant-api03-0123456789abcdefghijklmnop";
    let http =
        |rest: &str| judge_with(&format!("{{ http = \"https://api.example.org\", {rest} }}"));
    let cases = [
        judge_with("{ command = [] }"),
        judge_with("{ command = \"./judge\" }"),
        judge_with("{ comand = [\"./judge\"] }"),
        judge_with("{ command = [\"./judge\"], host = \"claude\" }"),
        judge_with("{ host = \"codex\" }"),
        judge_with("{ host = \"claude\", modle = \"opus\" }"),
        judge_with("{ http = \"http://api.example.org\", model = \"m\" }"),
        judge_with("{ http = \"https://kim:pass@api.example.org\", model = \"m\" }"),
        http("model = \"m\", api = \"open-ai\""),
        http("key = \"EXAMPLE_KEY\""),
        http(&format!("model = \"m\", key = \"{secret}\"")),
        http("model = \"m\", key = \"AbCd0123456789AbCd0123456789\""),
        judge_with("\"./judge\""),
        judge_with("{ host = \"claude\" }").replace("\"prompt\"", "\"adverserial\""),
        judge_with("{ host = \"claude\" }").replace("\"review\"", "\"goal\""),
        judge_with("{ host = \"claude\" }") + "counts = true\n",
        judge_with("{ host = \"claude\" }") + "tests = true\n",
        judge_with("{ host = \"claude\" }") + "reviewers = 3\n",
        http("model = \"m\"").replace("\"prompt\"", "\"agent\""),
        judge_with(&format!(
            "{{ http = \"http://api.example.org\", key = \"{secret}\", api = \"gemini\" }}"
        )),
        judge_with("{ host = \"claude\" }") + "prompt = \"missing.md\"\n",
        judge_with("{ host = \"claude\" }") + "prompt = \"../review.md\"\n",
        judge_with("{ host = \"claude\" }") + "max_token = 1\n",
        judge_with("{ host = \"claude\" }") + "\n[[gate]]\nname = \"review\"\nrun = [\"true\"]\n",
        "[[judge]]\nname = \"review\"\n".to_string(),
    ];
    let shown: Vec<String> =
        cases.iter().map(|case| format_problems(&load_project(case).unwrap_err())).collect();
    let shown = shown.join("\n");
    // The excerpt is the line of the file itself, which only the person sees.
    let messages: Vec<&str> =
        shown.lines().map(|line| line.split("  [").next().unwrap_or_default()).collect();
    let messages = messages.join("\n");
    assert!(!messages.contains(secret) && !messages.contains("kim:pass"), "{messages}");
    assert_snapshot!(messages);
}

/// Other words for settings that exist are answered with the key and its place.
#[test]
fn a_misplaced_key_is_answered_with_the_one_that_exists() {
    let shown = [
        "judge = \"counts\"\n",
        "[verify]\njudge = \"counts\"\n",
        "[[judge]]\nname = \"review\"\nkind = \"goal\"\nbackend = { host = \"claude\" }\njudge = \"counts\"\n",
        "approval = true\n",
        "[orchestrator]\napproval = true\n",
        "[orchestrator]\nimplement.approval = true\n",
        "[[gate]]\nname = \"tests\"\nrun = [\"true\"]\napproval = true\n",
    ]
    .map(|policy| format_problems(&load_project(policy).unwrap_err()));
    assert_snapshot!(shown.join("\n"), @r#"
    1: `judge` must be a list of tables  ["counts"]
         write one `[[judge]]` per entry

    2: unknown key `judge`  [judge]
         a `[[judge]]` of `kind = "goal"` counts as the measure of the goal with `counts = true`

    5: unknown key `judge`  [judge]
         a `[[judge]]` of `kind = "goal"` counts as the measure of the goal with `counts = true`

    1: unknown key `approval`  [approval]
         a chunk has it, in `[[pipeline.chunk]]`; for phases write `approvals = ["implement"]` under `[orchestrator]`

    2: unknown key `approval`  [approval]
         name the phases that a person approves: `approvals = ["implement"]`

    2: unknown key `implement`  [implement]
         known keys: `plan`, `approvals`

    4: unknown key `approval`  [approval]
         a chunk has it, in `[[pipeline.chunk]]`; for phases write `approvals = ["implement"]` under `[orchestrator]`
    "#);
}
