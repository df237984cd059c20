"""The error of an integration whose framework is not installed; it names the extra to install."""


def missing_extra(extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The same error with a text that says what to install; an error about another package stays as it is."""
    if error.name is None or error.name.partition(".")[0] != extra:
        return error
    text = f"tenure.integrations.{extra} needs the package {extra!r}; install it with: pip install 'tenure[{extra}]'"
    return ModuleNotFoundError(text, name=error.name)
