//! Options of formats on the command line: made from the list of formats, so that a new format needs no edit here.

use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use sealwright_formats::FORMATS;
use sealwright_formats::options::{FormatOptions, OptionSpec};

use crate::failure::Failure;

/// The value of `--format`: a name of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FormatName(pub(crate) &'static str);

impl clap::builder::ValueParserFactory for FormatName {
    type Parser = clap::builder::MapValueParser<PossibleValuesParser, fn(String) -> Self>;

    fn value_parser() -> Self::Parser {
        use clap::builder::TypedValueParser as _;
        let named = |format: &&'static dyn sealwright_formats::Format| {
            clap::builder::PossibleValue::new(format.name()).help(format.summary())
        };
        let find: fn(String) -> Self =
            |text| Self(sealwright_formats::by_name(&text).map_or("", |format| format.name()));
        PossibleValuesParser::new(FORMATS.iter().map(named)).map(find)
    }
}

/// The declared options of all formats that were given.
#[derive(Clone, Debug, Default)]
pub(crate) struct FormatArgs {
    given: Vec<(&'static str, String)>,
}

impl FormatArgs {
    /// The values, each checked by its format.
    ///
    /// # Errors
    /// A value that its format does not accept: wrong usage.
    pub(crate) fn options(&self) -> Result<FormatOptions, Failure> {
        let mut options = FormatOptions::default();
        for spec in specs() {
            if let Some((_, value)) = self.given.iter().find(|(name, _)| *name == spec.name) {
                options
                    .set(spec, value)
                    .map_err(|error| Failure::usage(error.to_string(), format!("{}.", spec.help)))?;
            }
        }
        Ok(options)
    }

    /// What was given, in order of the list.
    pub(crate) fn given(&self) -> &[(&'static str, String)] {
        &self.given
    }
}

fn specs() -> impl Iterator<Item = &'static OptionSpec> {
    FORMATS.iter().flat_map(|format| format.options())
}

fn argument(spec: &'static OptionSpec) -> Arg {
    let arg = Arg::new(spec.name)
        .long(spec.name)
        .value_name(spec.value_name)
        .help(spec.help)
        .default_value(spec.default);
    if spec.choices.is_empty() { arg } else { arg.value_parser(PossibleValuesParser::new(spec.choices)) }
}

impl clap::Args for FormatArgs {
    fn augment_args(command: Command) -> Command {
        specs().fold(command, |command, spec| command.arg(argument(spec)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FormatArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let is_given = |spec: &&OptionSpec| {
            matches.value_source(spec.name).is_some_and(|source| source != ValueSource::DefaultValue)
        };
        self.given = specs()
            .filter(is_given)
            .filter_map(|spec| Some((spec.name, matches.get_one::<String>(spec.name)?.clone())))
            .collect();
        Ok(())
    }
}
