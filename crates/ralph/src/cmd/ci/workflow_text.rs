//! The text of a workflow. Every value in it is checked before: hex digits, or an address or a path of plain characters.

use super::WorkflowProvider;

/// Version 4.2.2, by its commit: a tag can be moved.
const CHECKOUT_ACTION: &str = "actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2";
const RUST_IMAGE: &str = "rust:1-bookworm";

/// What the workflow depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct WorkflowTerms<'a> {
    pub(super) provider: WorkflowProvider,
    /// The hash of the policy.
    pub(super) hash: &'a str,
    /// The repository of ralph; `None` for a variable of the provider.
    pub(super) source: Option<&'a str>,
    /// The commit of ralph; `None` for a variable of the provider.
    pub(super) commit: Option<&'a str>,
    /// Whether changes are proved too.
    pub(super) is_proved: bool,
    /// The path of the project in the repository; empty at its root.
    pub(super) directory: &'a str,
}

pub(super) fn render_workflow(terms: &WorkflowTerms<'_>) -> String {
    match terms.provider {
        WorkflowProvider::Github => github_workflow(terms),
        WorkflowProvider::Gitlab => gitlab_workflow(terms),
    }
}

fn github_workflow(terms: &WorkflowTerms<'_>) -> String {
    let WorkflowTerms { hash, directory, .. } = terms;
    // Steps start at the root of the repository.
    let directory = match *directory {
        "" => String::new(),
        directory => format!("        working-directory: \"{directory}\"\n"),
    };
    let source = terms.source.unwrap_or("${{ vars.RALPH_REPOSITORY }}");
    let commit = terms.commit.unwrap_or("${{ vars.RALPH_COMMIT }}");
    let mut out = format!(
        "\
# Made by `ralph ci generate github`. Runs the gates of the policy with this hash and no other: after a change of the
# policy, make it again.
name: ralph
on: [push, pull_request]
permissions:
  contents: read
env:
  RALPH_REPOSITORY: \"{source}\"
  RALPH_COMMIT: \"{commit}\"
  RALPH_HASH: \"{hash}\"
jobs:
  gates:
    runs-on: ubuntu-latest
    timeout-minutes: 60
    steps:
      - uses: {CHECKOUT_ACTION}
        with:
          fetch-depth: 0
          persist-credentials: false
      - name: Install ralph
        run: cargo install --locked --git \"$RALPH_REPOSITORY\" --rev \"$RALPH_COMMIT\" ralph
      - name: Run the gates
{directory}        run: ralph gate run --all --trust-hash \"$RALPH_HASH\"
"
    );
    if terms.is_proved {
        // An escaped line break would swallow the indentation.
        out.push_str(&format!(
            "      - name: Prove the change
        if: github.event_name == 'pull_request'
        env:
          BASE_BRANCH: ${{{{ github.base_ref }}}}
{directory}        run: ralph prove \"origin/$BASE_BRANCH..HEAD\" --accept green --trust-hash \"$RALPH_HASH\"
",
        ));
    }
    out
}

fn gitlab_workflow(terms: &WorkflowTerms<'_>) -> String {
    let WorkflowTerms { hash, directory, .. } = terms;
    // Scripts start at the root of the repository, and so do the paths of artifacts.
    // Files that one pipeline includes need jobs of different names.
    let (name, enter, files) = match *directory {
        "" => ("ralph".to_string(), String::new(), String::new()),
        directory => (
            format!("\"ralph {directory}\""),
            format!("    - cd \"{directory}\"\n"),
            format!("{directory}/"),
        ),
    };
    let mut out = format!(
        "\
# Made by `ralph ci generate gitlab`. Runs the gates of the policy with this hash and no other: after a change of the
# policy, make it again.
{name}:
  image: {RUST_IMAGE}
  stage: test
  timeout: 1h
  variables:
    GIT_DEPTH: \"0\"
    RALPH_HASH: \"{hash}\"
"
    );
    // A variable of the same name in the settings of the project is used if the file has none.
    for (name, value) in [("RALPH_REPOSITORY", terms.source), ("RALPH_COMMIT", terms.commit)] {
        if let Some(value) = value {
            out.push_str(&format!("    {name}: \"{value}\"\n"));
        }
    }
    out.push_str(&format!(
        "  before_script:
    - cargo install --locked --git \"$RALPH_REPOSITORY\" --rev \"$RALPH_COMMIT\" ralph
  script:
{enter}    - ralph gate run --all --trust-hash \"$RALPH_HASH\" --format junit --summary ralph-summary.md > ralph-junit.xml
"
    ));
    if terms.is_proved {
        out.push_str(
            "    - if [ -n \"$CI_MERGE_REQUEST_DIFF_BASE_SHA\" ]; then ralph prove \"$CI_MERGE_REQUEST_DIFF_BASE_SHA..HEAD\" --accept green --trust-hash \"$RALPH_HASH\"; fi\n",
        );
    }
    out.push_str(&format!(
        "  after_script:
    - if [ -e \"{files}ralph-summary.md\" ]; then cat \"{files}ralph-summary.md\"; fi
  artifacts:
    when: always
    reports:
      junit: \"{files}ralph-junit.xml\"
  rules:
    - if: $CI_PIPELINE_SOURCE == \"merge_request_event\"
    - if: $CI_COMMIT_BRANCH && $CI_OPEN_MERGE_REQUESTS == null
"
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ralph_policy::detect::yaml::parse_yaml;

    const HASH: &str = "eee23f948e5fb460367fdf0216b0c498ab115828e2f91cd57bb5013ed0601b02";

    fn workflow(provider: WorkflowProvider, is_pinned: bool, is_proved: bool) -> String {
        workflow_in("", provider, is_pinned, is_proved)
    }

    fn workflow_in(
        directory: &str,
        provider: WorkflowProvider,
        is_pinned: bool,
        is_proved: bool,
    ) -> String {
        render_workflow(&WorkflowTerms {
            provider,
            hash: HASH,
            source: is_pinned.then_some("https://example.com/ralph.git"),
            commit: is_pinned.then_some("3f1c2ab000000000000000000000000000000000"),
            is_proved,
            directory,
        })
    }

    /// Each workflow is YAML whose steps are those that the text shows.
    #[test]
    fn workflows_are_yaml() {
        for is_pinned in [false, true] {
            for is_proved in [false, true] {
                let text = workflow(WorkflowProvider::Github, is_pinned, is_proved);
                let parsed = parse_yaml(&text).unwrap();
                let jobs = parsed.get("jobs").and_then(|jobs| jobs.get("gates")).unwrap();
                let steps = jobs.get("steps").unwrap().items();
                let runs: Vec<&str> =
                    steps.iter().filter_map(|step| step.get("run")?.text()).collect();
                assert_eq!(runs.len(), if is_proved { 3 } else { 2 }, "{text}");
                assert!(runs[1].starts_with("ralph gate run --all --trust-hash"), "{text}");
                let text = workflow(WorkflowProvider::Gitlab, is_pinned, is_proved);
                let parsed = parse_yaml(&text).unwrap();
                let script = parsed.get("ralph").and_then(|job| job.get("script")).unwrap();
                assert_eq!(script.texts().len(), if is_proved { 2 } else { 1 }, "{text}");
                assert!(script.texts()[0].starts_with("ralph gate run --all"), "{text}");
            }
        }
    }

    #[test]
    fn workflows_install_one_commit_and_run_one_policy() {
        insta::assert_snapshot!(workflow(WorkflowProvider::Github, false, true), @r#"
        # Made by `ralph ci generate github`. Runs the gates of the policy with this hash and no other: after a change of the
        # policy, make it again.
        name: ralph
        on: [push, pull_request]
        permissions:
          contents: read
        env:
          RALPH_REPOSITORY: "${{ vars.RALPH_REPOSITORY }}"
          RALPH_COMMIT: "${{ vars.RALPH_COMMIT }}"
          RALPH_HASH: "eee23f948e5fb460367fdf0216b0c498ab115828e2f91cd57bb5013ed0601b02"
        jobs:
          gates:
            runs-on: ubuntu-latest
            timeout-minutes: 60
            steps:
              - uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2
                with:
                  fetch-depth: 0
                  persist-credentials: false
              - name: Install ralph
                run: cargo install --locked --git "$RALPH_REPOSITORY" --rev "$RALPH_COMMIT" ralph
              - name: Run the gates
                run: ralph gate run --all --trust-hash "$RALPH_HASH"
              - name: Prove the change
                if: github.event_name == 'pull_request'
                env:
                  BASE_BRANCH: ${{ github.base_ref }}
                run: ralph prove "origin/$BASE_BRANCH..HEAD" --accept green --trust-hash "$RALPH_HASH"
        "#);
        insta::assert_snapshot!(workflow(WorkflowProvider::Gitlab, true, true), @r#"
        # Made by `ralph ci generate gitlab`. Runs the gates of the policy with this hash and no other: after a change of the
        # policy, make it again.
        ralph:
          image: rust:1-bookworm
          stage: test
          timeout: 1h
          variables:
            GIT_DEPTH: "0"
            RALPH_HASH: "eee23f948e5fb460367fdf0216b0c498ab115828e2f91cd57bb5013ed0601b02"
            RALPH_REPOSITORY: "https://example.com/ralph.git"
            RALPH_COMMIT: "3f1c2ab000000000000000000000000000000000"
          before_script:
            - cargo install --locked --git "$RALPH_REPOSITORY" --rev "$RALPH_COMMIT" ralph
          script:
            - ralph gate run --all --trust-hash "$RALPH_HASH" --format junit --summary ralph-summary.md > ralph-junit.xml
            - if [ -n "$CI_MERGE_REQUEST_DIFF_BASE_SHA" ]; then ralph prove "$CI_MERGE_REQUEST_DIFF_BASE_SHA..HEAD" --accept green --trust-hash "$RALPH_HASH"; fi
          after_script:
            - if [ -e "ralph-summary.md" ]; then cat "ralph-summary.md"; fi
          artifacts:
            when: always
            reports:
              junit: "ralph-junit.xml"
          rules:
            - if: $CI_PIPELINE_SOURCE == "merge_request_event"
            - if: $CI_COMMIT_BRANCH && $CI_OPEN_MERGE_REQUESTS == null
        "#);
    }

    /// Jobs start at the root of the repository, so the steps of a project in a directory enter it.
    #[test]
    fn the_steps_of_a_project_in_a_directory_start_there() {
        let differing = |provider| {
            let plain = workflow(provider, true, true);
            let below = workflow_in("web/the app", provider, true, true);
            parse_yaml(&below).unwrap();
            let is_own = |line: &&str| !plain.lines().any(|other| other == *line);
            below.lines().filter(is_own).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(differing(WorkflowProvider::Github), @r#"
                working-directory: "web/the app"
                working-directory: "web/the app"
        "#);
        insta::assert_snapshot!(differing(WorkflowProvider::Gitlab), @r#"
        "ralph web/the app":
            - cd "web/the app"
            - if [ -e "web/the app/ralph-summary.md" ]; then cat "web/the app/ralph-summary.md"; fi
              junit: "web/the app/ralph-junit.xml"
        "#);
    }
}
