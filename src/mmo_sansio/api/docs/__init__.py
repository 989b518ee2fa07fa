"""What developers read about the API: error pages and the OpenAPI document."""
