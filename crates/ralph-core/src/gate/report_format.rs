//! The formats of reports. A format is one row here and a parser in `ralph-gates`.

use serde::{Deserialize, Serialize};

/// One row per format: its variant, its name, and what its reports always have.
macro_rules! report_formats {
    ($($(#[$attribute:meta])* $format:ident, $name:literal, $content:ident;)*) => {
        /// The format of a gate's output.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub enum ReportFormat {
            $($(#[$attribute])* #[serde(rename = $name)] $format,)*
        }

        impl ReportFormat {
            pub const ALL: &[Self] = &[$(Self::$format),*];
            pub const NAMES: &[&str] = &[$($name),*];

            pub fn name(self) -> &'static str {
                match self { $(Self::$format => $name,)* }
            }

            fn content(self) -> ReportContent {
                match self { $(Self::$format => ReportContent::$content,)* }
            }
        }
    };
}

/// What reports of a format always have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReportContent {
    /// Whatever the tool prints.
    Anything,
    TestCounts,
    /// Findings, each with a severity.
    Severities,
    /// The lines that tests run.
    Coverage,
}

impl ReportFormat {
    /// Whether reports in this format always count tests.
    pub fn counts_tests(self) -> bool {
        self.content() == ReportContent::TestCounts
    }

    /// Whether reports in this format give each finding a severity.
    pub fn has_severities(self) -> bool {
        self.content() == ReportContent::Severities
    }

    /// Whether reports in this format say which lines tests run.
    pub fn measures_coverage(self) -> bool {
        self.content() == ReportContent::Coverage
    }
}

report_formats! {
    /// Plain text: whatever findings can be recognised in it.
    #[default]
    Text, "text", Anything;
    Junit, "junit", TestCounts;
    Sarif, "sarif", Severities;
    CargoJson, "cargo-json", Severities;
    EslintJson, "eslint-json", Severities;
    GoTestJson, "go-test-json", TestCounts;
    Tap, "tap", TestCounts;
    Pytest, "pytest", TestCounts;
    Tsc, "tsc", Anything;
    Lcov, "lcov", Coverage;
    Cobertura, "cobertura", Coverage;
    LlvmCov, "llvm-cov", Coverage;
    GoCover, "go-cover", Coverage;
    /// Only the exit code counts.
    None, "none", Anything;
}
