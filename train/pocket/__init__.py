"""Makes the pocket world's model and encoders. Nothing else imports it."""
