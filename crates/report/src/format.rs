//! What the table of formats in `lib.rs` is made into.

/// What a format has that others do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormatTrait {
    /// It reads the sources of a report, for excerpts or for columns in other units.
    Sources,
    /// It has a form of its own for statistics.
    Statistics,
    /// It names the configuration.
    Configuration,
}

/// Makes the type [`Format`](crate::Format) of a table: the description, the variant, the name on the command line, the
/// function that writes it, the ending of its sample (empty where there is none), and what it has that others do not.
macro_rules! formats {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal $write:path, $ending:literal [$($has:ident),*];)+) => {
        /// The formats of a report.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Format {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Format {
            /// All formats, in the order in which they are listed.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name on the command line, and a description of one line.
            #[must_use]
            pub fn describe(self) -> (&'static str, &'static str) {
                let (name, what): (_, &str) = match self { $(Self::$variant => ($name, concat!($($doc),+)),)+ };
                (name, what.trim().trim_end_matches('.'))
            }

            fn has(self, wanted: FormatTrait) -> bool {
                let traits: &[FormatTrait] = match self { $(Self::$variant => &[$(FormatTrait::$has),*],)+ };
                traits.contains(&wanted)
            }

            /// Tells whether the format reads [`Report::sources`], for excerpts or for columns in other units.
            #[must_use]
            pub fn reads_sources(self) -> bool {
                self.has(FormatTrait::Sources)
            }

            /// Tells whether the format has a form of its own for statistics.
            #[must_use]
            pub fn has_statistics(self) -> bool {
                self.has(FormatTrait::Statistics)
            }

            /// Tells whether the format names the [configuration](Report::configuration).
            #[must_use]
            pub fn names_configuration(self) -> bool {
                self.has(FormatTrait::Configuration)
            }

            /// Returns the ending of its sample; nothing where there is none.
            #[cfg(test)]
            fn ending(self) -> Option<&'static str> {
                let ending = match self { $(Self::$variant => $ending,)+ };
                Some(ending).filter(|ending| !ending.is_empty())
            }
        }

        /// Writes a report in a format.
        ///
        /// # Errors
        ///
        /// Those of `out`, and no others: a report can always be written.
        pub fn write(
            report: &Report,
            format: Format,
            options: &Options,
            out: &mut dyn io::Write,
        ) -> io::Result<()> {
            match format {
                $(Format::$variant => $write(report, options, out),)+
            }
        }
    };
}

pub(crate) use formats;
