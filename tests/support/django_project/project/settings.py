"""Settings of the test project: PROJECT_DATABASE is a URL, PROJECT_TENURE is what TENURE is, as JSON."""

import json
import os
from urllib.parse import parse_qsl, unquote, urlsplit


def database(url):
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        name = unquote(parts.path).removeprefix("/")
        test = {} if os.environ.get("PROJECT_IN_MEMORY") else {"NAME": f"{name}.test"}
        options = {"transaction_mode": "IMMEDIATE"}  # as one does where several processes write
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": name, "TEST": test, "OPTIONS": options}
    if parts.scheme == "mysql":
        import pymysql

        pymysql.version_info = (2, 2, 7, "final", 0)  # it stands in for mysqlclient, whose version Django checks
        pymysql.install_as_MySQLdb()
    query = dict(parse_qsl(parts.query))
    return {
        "ENGINE": f"django.db.backends.{parts.scheme}",
        "NAME": parts.path.removeprefix("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.get("host", parts.hostname or ""),
        "PORT": str(parts.port or query.get("port", "")),
    }


SECRET_KEY = "django-insecure-only-for-the-tests-of-this-project"
DEBUG = bool(os.environ.get("PROJECT_DEBUG"))
ALLOWED_HOSTS = ["*"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {"default": database(os.environ["PROJECT_DATABASE"])}
if other := os.environ.get("PROJECT_OTHER_DATABASE"):
    DATABASES["other"] = database(other)
if given := os.environ.get("PROJECT_TENURE"):
    TENURE = json.loads(given)
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "tenure.integrations.django",
    "shop",
    *os.environ.get("PROJECT_APPS", "").split(),
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the tests sign in often
ROOT_URLCONF = "project.urls"
USE_TZ = True
TIME_ZONE = "UTC"
